import java.sql.*;
import java.util.*;

/** What pgjdbc does: metadata calls, prepared statements past the fifth execution (binary), cursors, types. */
public class Client {
    static void rows(String what, ResultSet r) throws SQLException {
        ResultSetMetaData m = r.getMetaData();
        while (r.next()) {
            StringBuilder line = new StringBuilder(what);
            for (int i = 1; i <= m.getColumnCount(); i++) line.append('\t').append(m.getColumnLabel(i)).append('=').append(r.getString(i));
            System.out.println(line);
        }
        r.close();
    }

    public static void main(String[] a) throws Exception {
        Properties p = new Properties();
        p.setProperty("user", "me");
        if (a.length > 1) p.setProperty("password", a[1]);
        try (Connection c = DriverManager.getConnection(a[0], p)) {
            DatabaseMetaData d = c.getMetaData();
            System.out.println("product\t" + d.getDatabaseProductName() + "\t" + d.getDatabaseProductVersion());
            rows("schema", d.getSchemas());
            rows("table", d.getTables(null, "public", "%", new String[] {"TABLE", "VIEW"}));
            rows("column", d.getColumns(null, "public", "orders", "%"));
            rows("key", d.getPrimaryKeys(null, "public", "orders"));
            rows("imported", d.getImportedKeys(null, "public", "orders"));
            rows("index", d.getIndexInfo(null, "public", "orders", false, false));
            rows("catalog", d.getCatalogs());
            rows("tabletype", d.getTableTypes());
            d.getTypeInfo().close();
            d.getProcedures(null, null, "%").close();
            d.getFunctions(null, null, "%").close();
            d.getColumnPrivileges(null, "public", "orders", "%").close();
            d.getTablePrivileges(null, "public", "orders").close();
            d.getBestRowIdentifier(null, "public", "orders", 0, true).close();
            d.getExportedKeys(null, "public", "orders").close();
            d.getCrossReference(null, "public", "orders", null, "public", "visits").close();
            d.getUDTs(null, null, "%", null).close();
            try (PreparedStatement s = c.prepareStatement("select region, n, n_low, money, exact from by_region where region = ?")) {
                for (int i = 0; i < 8; i++) {
                    s.setString(1, "north");
                    ResultSet r = s.executeQuery();
                    r.next();
                    System.out.println("prepared\t" + i + "\t" + r.getString(1) + "\t" + r.getLong(2) + "\t" + r.getDouble(3) + "\t" + r.getDouble(4) + "\t" + r.getBoolean(5));
                }
            }
            try (PreparedStatement s = c.prepareStatement("select count(*) as n from orders where region = ?")) {
                for (int i = 0; i < 8; i++) {
                    s.setString(1, "north");
                    ResultSet r = s.executeQuery();
                    r.next();
                    System.out.println("bound\t" + i + "\t" + r.getLong(1));
                }
                System.out.println("warning\t" + (s.getWarnings() == null ? "none" : s.getWarnings().getMessage()));
            }
            c.setAutoCommit(false);
            try (Statement s = c.createStatement()) {
                s.setFetchSize(50);
                ResultSet r = s.executeQuery("select customer, n from busiest");
                int count = 0;
                while (r.next()) count++;
                System.out.println("cursor\t" + count);
            }
            c.commit();
            c.setReadOnly(true);
            c.setAutoCommit(true);
            try (PreparedStatement s = c.prepareStatement("select current_date, now(), 1.25::numeric, array['a','b'], 1::smallint, 2::real, true")) {
                for (int i = 0; i < 7; i++) {
                    ResultSet r = s.executeQuery();
                    r.next();
                    System.out.println("types\t" + r.getDate(1) + "\t" + r.getBigDecimal(3) + "\t" + Arrays.toString((Object[]) r.getArray(4).getArray()) + "\t" + r.getInt(5) + "\t" + r.getFloat(6) + "\t" + r.getBoolean(7));
                }
            }
            try (Statement s = c.createStatement()) {
                s.execute("delete from orders");
            } catch (SQLException e) {
                System.out.println("refused\t" + e.getSQLState() + "\t" + e.getMessage());
            }
        }
    }
}
