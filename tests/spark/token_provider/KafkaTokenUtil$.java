package org.apache.spark.kafka010;

import java.util.Map;

/** Stands in for the object of spark-token-provider-kafka-0-10: there are no tokens. */
public class KafkaTokenUtil$ {
  public static final KafkaTokenUtil$ MODULE$ = new KafkaTokenUtil$();

  public scala.Option<Object> findMatchingTokenClusterConfig(org.apache.spark.SparkConf conf, String servers) {
    return scala.Option.empty();
  }

  public boolean needTokenUpdate(Map<String, Object> settings, scala.Option<?> cluster) {
    return false;
  }
}
