package org.apache.spark.kafka010;

import java.util.HashMap;
import java.util.Map;

/** Stands in for the class of spark-token-provider-kafka-0-10: passes a source's settings on, without tokens. */
public class KafkaConfigUpdater {
  private final Map<String, Object> settings = new HashMap<>();

  public KafkaConfigUpdater(String module, scala.collection.immutable.Map<String, Object> given) {
    settings.putAll(scala.jdk.javaapi.CollectionConverters.asJava(given));
  }

  public KafkaConfigUpdater set(String name, Object value) {
    settings.put(name, value);
    return this;
  }

  public KafkaConfigUpdater setIfUnset(String name, Object value) {
    settings.putIfAbsent(name, value);
    return this;
  }

  public KafkaConfigUpdater setAuthenticationConfigIfNeeded() {
    return this;
  }

  public KafkaConfigUpdater setAuthenticationConfigIfNeeded(scala.Option<?> cluster) {
    return this;
  }

  public Map<String, Object> build() {
    return settings;
  }
}
