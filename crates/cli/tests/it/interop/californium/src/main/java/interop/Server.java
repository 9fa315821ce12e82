package interop;

import static org.eclipse.californium.core.coap.CoAP.ResponseCode.CHANGED;
import static org.eclipse.californium.core.coap.CoAP.ResponseCode.CONTENT;
import static org.eclipse.californium.core.coap.CoAP.ResponseCode.CREATED;
import static org.eclipse.californium.core.coap.CoAP.ResponseCode.DELETED;
import static org.eclipse.californium.core.coap.CoAP.ResponseCode.NOT_ACCEPTABLE;
import static org.eclipse.californium.core.coap.CoAP.ResponseCode.NOT_FOUND;
import static org.eclipse.californium.core.coap.CoAP.ResponseCode.PRECONDITION_FAILED;
import static org.eclipse.californium.core.coap.CoAP.ResponseCode.VALID;
import static org.eclipse.californium.core.coap.MediaTypeRegistry.APPLICATION_JSON;
import static org.eclipse.californium.core.coap.MediaTypeRegistry.APPLICATION_OCTET_STREAM;
import static org.eclipse.californium.core.coap.MediaTypeRegistry.TEXT_PLAIN;

import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.zip.CRC32;
import javax.net.ssl.SSLContext;
import org.eclipse.californium.core.CoapResource;
import org.eclipse.californium.core.CoapServer;
import org.eclipse.californium.core.coap.CoAP.ResponseCode;
import org.eclipse.californium.core.coap.CoAP.Type;
import org.eclipse.californium.core.coap.OptionSet;
import org.eclipse.californium.core.coap.Response;
import org.eclipse.californium.core.config.CoapConfig;
import org.eclipse.californium.core.network.CoapEndpoint;
import org.eclipse.californium.core.server.resources.CoapExchange;
import org.eclipse.californium.elements.config.CertificateAuthenticationMode;
import org.eclipse.californium.elements.config.Configuration;
import org.eclipse.californium.elements.config.TcpConfig;
import org.eclipse.californium.elements.config.UdpConfig;
import org.eclipse.californium.elements.tcp.netty.TcpServerConnector;
import org.eclipse.californium.elements.tcp.netty.TlsServerConnector;
import org.eclipse.californium.scandium.config.DtlsConfig;

/** A Californium server with the resources of the interop tests; see README.md two folders up. */
final class Server {
  private static final String HELLO = "hello from californium, 32 bytes and some more";
  private static final long SLOW_MILLIS = 1_500;
  private static final int LARGE = 1 << 20;
  private static final int BULK = 4 << 10;
  private static final long TICK_MILLIS = 200;
  private static final long TICK_MAX_AGE = 1;

  private static final ScheduledExecutorService TIMER =
      Executors.newSingleThreadScheduledExecutor(
          task -> {
            Thread thread = new Thread(task, "timer");
            thread.setDaemon(true);
            return thread;
          });

  private Server() {}

  public static void main(String[] arguments) throws Exception {
    int port = Integer.parseInt(arguments[0]);
    String scheme = "coap";
    Path certificate = null;
    Path key = null;
    Dtls dtls = new Dtls();
    boolean bench = false;
    InetAddress bind = InetAddress.getLoopbackAddress();
    for (int i = 1; i < arguments.length; i++) {
      boolean taken = i + 1 < arguments.length && dtls.take(arguments[i], arguments[i + 1]);
      switch (arguments[i]) {
        case "--scheme" -> scheme = arguments[++i];
        case "--cert" -> certificate = Path.of(arguments[++i]);
        case "--key" -> key = Path.of(arguments[++i]);
        case "--bind" -> bind = InetAddress.getByName(arguments[++i]);
        case "--bench" -> bench = arguments[++i].equals("yes");
        default -> {
          if (!taken) {
            throw new IllegalArgumentException("unknown: " + arguments[i]);
          }
          i++;
        }
      }
    }
    Configuration configuration = configuration(1024);
    CoapServer server = new CoapServer(configuration);
    CoapEndpoint.Builder endpoint = new CoapEndpoint.Builder();
    endpoint.setConfiguration(configuration);
    InetSocketAddress address = new InetSocketAddress(bind, port);
    switch (scheme) {
      case "coap+tcp" -> endpoint.setConnector(new TcpServerConnector(address, configuration));
      case "coaps+tcp" -> {
        SSLContext security = Security.identity(certificate, key);
        endpoint.setConnector(new TlsServerConnector(security, address, configuration));
      }
      case "coaps" -> endpoint.setConnector(dtls.connector(address, configuration));
      default -> endpoint.setInetSocketAddress(address);
    }
    server.addEndpoint(endpoint.build());
    server.add(
        new Hello(bench ? HELLO.substring(0, 32) : HELLO),
        new Store(),
        new Echo(),
        new Counter(),
        new Slow(),
        new Large(),
        new Patch(),
        new Negotiate(),
        new Count(),
        new Ticks(),
        new Bulk());
    if (bench) {
      server.add(new Told(), new Pattern());
    }
    server.start();
  }

  /** Without a properties file, which the library would otherwise write where it is started. */
  static Configuration configuration(int blockSize) {
    CoapConfig.register();
    DtlsConfig.register();
    TcpConfig.register();
    UdpConfig.register();
    Configuration configuration = Configuration.createStandardWithoutFile();
    configuration.set(CoapConfig.MAX_RESOURCE_BODY_SIZE, 4 << 20);
    configuration.set(CoapConfig.PREFERRED_BLOCK_SIZE, blockSize);
    configuration.set(CoapConfig.MAX_MESSAGE_SIZE, blockSize);
    configuration.set(TcpConfig.TCP_WORKER_THREADS, 1);
    // Over TLS, a server asks its clients who they are by default.
    configuration.set(
        TcpConfig.TLS_CLIENT_AUTHENTICATION_MODE, CertificateAuthenticationMode.NONE);
    return configuration;
  }

  static byte[] etag(byte[] payload) {
    CRC32 sum = new CRC32();
    sum.update(payload);
    return ByteBuffer.allocate(4).putInt((int) sum.getValue()).array();
  }

  private static final class Hello extends CoapResource {
    private final String text;

    Hello(String text) {
      super("hello");
      this.text = text;
      getAttributes().addResourceType("carob.text");
      getAttributes().addContentType(TEXT_PLAIN);
    }

    @Override
    public void handleGET(CoapExchange exchange) {
      exchange.respond(CONTENT, text, TEXT_PLAIN);
    }
  }

  private static final class Large extends CoapResource {
    Large() {
      super("large");
      getAttributes().addResourceType("carob.bytes");
      getAttributes().addContentType(APPLICATION_OCTET_STREAM);
    }

    @Override
    public void handleGET(CoapExchange exchange) {
      String query = exchange.getRequestOptions().getUriQueryString();
      byte[] bytes = new byte[query.isEmpty() ? LARGE : Math.min(LARGE, Integer.parseInt(query))];
      for (int i = 0; i < bytes.length; i++) {
        bytes[i] = (byte) (i * 0x9E3779B1 >>> 13);
      }
      exchange.respond(CONTENT, bytes, APPLICATION_OCTET_STREAM);
    }
  }

  private static final class Store extends CoapResource {
    private byte[] payload;

    Store() {
      super("store");
      getAttributes().addResourceType("carob.store");
      getAttributes().addInterfaceDescription("carob.p");
    }

    private synchronized boolean conditionHolds(OptionSet options) {
      if (options.hasIfNoneMatch() && payload != null) {
        return false;
      }
      return options.getIfMatchCount() == 0
          || (payload != null && options.isIfMatch(etag(payload)));
    }

    @Override
    public synchronized void handleGET(CoapExchange exchange) {
      if (payload == null) {
        exchange.respond(NOT_FOUND);
        return;
      }
      byte[] etag = etag(payload);
      exchange.setETag(etag);
      if (exchange.getRequestOptions().containsETag(etag)) {
        exchange.respond(VALID);
      } else {
        exchange.respond(CONTENT, payload, APPLICATION_OCTET_STREAM);
      }
    }

    @Override
    public synchronized void handlePUT(CoapExchange exchange) {
      if (!conditionHolds(exchange.getRequestOptions())) {
        exchange.respond(PRECONDITION_FAILED);
        return;
      }
      ResponseCode code = payload == null ? CREATED : CHANGED;
      payload = exchange.getRequestPayload();
      exchange.respond(code);
    }

    @Override
    public synchronized void handleDELETE(CoapExchange exchange) {
      if (!conditionHolds(exchange.getRequestOptions())) {
        exchange.respond(PRECONDITION_FAILED);
        return;
      }
      payload = null;
      exchange.respond(DELETED);
    }
  }

  private static final class Echo extends CoapResource {
    Echo() {
      super("echo");
      getAttributes().addResourceType("carob.echo");
    }

    private static void back(CoapExchange exchange, ResponseCode code) {
      Response response = new Response(code);
      response.setPayload(exchange.getRequestPayload());
      if (exchange.getRequestOptions().hasContentFormat()) {
        response.getOptions().setContentFormat(exchange.getRequestOptions().getContentFormat());
      }
      exchange.respond(response);
    }

    @Override
    public void handlePOST(CoapExchange exchange) {
      back(exchange, CHANGED);
    }

    @Override
    public void handlePUT(CoapExchange exchange) {
      back(exchange, CHANGED);
    }

    @Override
    public void handleFETCH(CoapExchange exchange) {
      back(exchange, CONTENT);
    }
  }

  private static class Counter extends CoapResource {
    protected int count;

    Counter() {
      this("counter");
    }

    Counter(String name) {
      super(name);
      getAttributes().addResourceType("carob.number");
      getAttributes().addContentType(TEXT_PLAIN);
    }

    @Override
    public synchronized void handleGET(CoapExchange exchange) {
      exchange.respond(CONTENT, Integer.toString(count), TEXT_PLAIN);
    }

    @Override
    public synchronized void handlePOST(CoapExchange exchange) {
      count += 1;
      exchange.respond(CHANGED, Integer.toString(count), TEXT_PLAIN);
      changed();
    }
  }

  private static final class Slow extends CoapResource {
    Slow() {
      super("slow");
      getAttributes().addResourceType("carob.text");
    }

    @Override
    public void handleGET(CoapExchange exchange) {
      exchange.accept();
      TIMER.schedule(
          () -> exchange.respond(CONTENT, "sorry for the delay", TEXT_PLAIN),
          SLOW_MILLIS,
          TimeUnit.MILLISECONDS);
    }
  }

  private static final class Patch extends CoapResource {
    private byte[] payload = new byte[0];

    Patch() {
      super("patch");
      getAttributes().addResourceType("carob.patch");
    }

    @Override
    public synchronized void handleGET(CoapExchange exchange) {
      exchange.respond(CONTENT, payload, APPLICATION_OCTET_STREAM);
    }

    @Override
    public synchronized void handlePATCH(CoapExchange exchange) {
      byte[] more = exchange.getRequestPayload();
      payload = ByteBuffer.allocate(payload.length + more.length).put(payload).put(more).array();
      exchange.respond(CHANGED);
    }

    @Override
    public synchronized void handleIPATCH(CoapExchange exchange) {
      payload = exchange.getRequestPayload();
      exchange.respond(CHANGED);
    }
  }

  private static final class Negotiate extends CoapResource {
    Negotiate() {
      super("negotiate");
      getAttributes().addResourceType("carob.text");
      getAttributes().addContentTypes(TEXT_PLAIN, APPLICATION_JSON);
    }

    @Override
    public void handleGET(CoapExchange exchange) {
      OptionSet options = exchange.getRequestOptions();
      if (!options.hasAccept() || options.isAccept(TEXT_PLAIN)) {
        exchange.respond(CONTENT, "as text", TEXT_PLAIN);
      } else if (options.isAccept(APPLICATION_JSON)) {
        exchange.respond(CONTENT, "{\"as\":\"json\"}", APPLICATION_JSON);
      } else {
        exchange.respond(NOT_ACCEPTABLE);
      }
    }
  }

  /** Observable; its notifications are confirmable. */
  private static class Count extends Counter {
    Count() {
      this("count", Type.CON);
    }

    Count(String name, Type type) {
      super(name);
      setObservable(true);
      setObserveType(type);
      getAttributes().setObservable();
      getAttributes().addInterfaceDescription("carob.s");
    }
  }

  /** Changes by itself; its notifications are not confirmable. */
  private static final class Ticks extends Count {
    Ticks() {
      super("ticks", Type.NON);
      TIMER.scheduleAtFixedRate(this::tick, TICK_MILLIS, TICK_MILLIS, TimeUnit.MILLISECONDS);
    }

    private synchronized void tick() {
      count += 1;
      changed();
    }

    @Override
    public synchronized void handleGET(CoapExchange exchange) {
      exchange.setMaxAge(TICK_MAX_AGE);
      super.handleGET(exchange);
    }
  }

  /** Observable, with notifications of several blocks. */
  private static final class Bulk extends Count {
    Bulk() {
      super("bulk", Type.CON);
    }

    @Override
    public synchronized void handleGET(CoapExchange exchange) {
      byte[] body = new byte[BULK];
      for (int i = 0; i < BULK; i++) {
        body[i] = (byte) ('a' + (i + count) % 26);
      }
      exchange.respond(CONTENT, body, TEXT_PLAIN);
    }
  }

  /** Of benchmarks: observable, with notifications that are not confirmable. */
  private static final class Told extends Count {
    Told() {
      super("told", Type.NON);
    }
  }

  /** Of benchmarks: 1 MiB, in which each byte is its place. */
  private static final class Pattern extends CoapResource {
    private final byte[] bytes = new byte[LARGE];

    Pattern() {
      super("pattern");
      for (int i = 0; i < bytes.length; i++) {
        bytes[i] = (byte) i;
      }
    }

    @Override
    public void handleGET(CoapExchange exchange) {
      exchange.respond(CONTENT, bytes, APPLICATION_OCTET_STREAM);
    }
  }
}
