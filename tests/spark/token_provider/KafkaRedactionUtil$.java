package org.apache.spark.kafka010;

/** Stands in for the object of spark-token-provider-kafka-0-10: these settings hold no secrets to hide. */
public class KafkaRedactionUtil$ {
  public static final KafkaRedactionUtil$ MODULE$ = new KafkaRedactionUtil$();

  public scala.collection.immutable.Seq<?> redactParams(scala.collection.immutable.Seq<?> settings) {
    return settings;
  }
}
