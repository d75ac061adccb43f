import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/** The Flink peer: upsert-kafka to Iceberg's upsert sink, in a cluster inside this process, until the topic's end.
 *  Arguments: catalog, folder, brokers, topic, checkpoint interval, parallelism. */
public class UpsertFromKafka {
  public static void main(String[] words) throws Exception {
    String catalog = words[0], folder = words[1], brokers = words[2], topic = words[3], parallelism = words[5];
    Configuration settings = new Configuration();
    settings.setString("execution.checkpointing.interval", words[4]);
    settings.setString("execution.checkpointing.dir", "file://" + folder + "/checkpoints");
    settings.setString("state.backend.type", "hashmap");
    settings.setString("taskmanager.numberOfTaskSlots", parallelism);
    settings.setString("taskmanager.memory.managed.size", "256m");
    settings.setString("rest.port", "0");
    StreamTableEnvironment flink = StreamTableEnvironment.create(
        StreamExecutionEnvironment.createLocalEnvironment(Integer.parseInt(parallelism), settings));
    String columns = "id BIGINT NOT NULL, customer STRING, amount DOUBLE, status STRING, updated_at BIGINT, "
        + "note STRING, PRIMARY KEY (id) NOT ENFORCED";
    flink.executeSql("CREATE CATALOG " + catalog + " WITH ('type'='iceberg', "
        + "'catalog-impl'='org.apache.iceberg.jdbc.JdbcCatalog', 'jdbc.schema-version'='V1', "
        + "'uri'='jdbc:sqlite:" + folder + "/catalog.db', 'warehouse'='file://" + folder + "/warehouse')");
    flink.executeSql("CREATE DATABASE IF NOT EXISTS " + catalog + ".shop");
    flink.executeSql("CREATE TABLE " + catalog + ".shop.orders (" + columns
        + ") WITH ('format-version'='2', 'write.upsert.enabled'='true')");
    flink.executeSql("CREATE TEMPORARY TABLE records (" + columns + ") WITH ('connector'='upsert-kafka', "
        + "'topic'='" + topic + "', 'properties.bootstrap.servers'='" + brokers + "', "
        + "'properties.group.id'='" + catalog + "', 'key.format'='json', 'value.format'='json', "
        + "'value.fields-include'='ALL', 'scan.bounded.mode'='latest-offset')");
    flink.executeSql("INSERT INTO " + catalog + ".shop.orders SELECT * FROM records").await();
    System.exit(0);
  }
}
