package interop;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.Locale;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.eclipse.californium.core.CoapClient;
import org.eclipse.californium.core.CoapHandler;
import org.eclipse.californium.core.CoapObserveRelation;
import org.eclipse.californium.core.CoapResponse;
import org.eclipse.californium.core.coap.BlockOption;
import org.eclipse.californium.core.coap.CoAP.Code;
import org.eclipse.californium.core.coap.CoAP.Type;
import org.eclipse.californium.core.coap.MessageObserverAdapter;
import org.eclipse.californium.core.coap.Option;
import org.eclipse.californium.core.coap.OptionSet;
import org.eclipse.californium.core.coap.Request;
import org.eclipse.californium.core.coap.Response;
import org.eclipse.californium.core.network.CoapEndpoint;
import org.eclipse.californium.elements.config.Configuration;
import org.eclipse.californium.elements.tcp.netty.TcpClientConnector;
import org.eclipse.californium.elements.tcp.netty.TlsClientConnector;

/** One request, or one observation, by Californium; see README.md two folders up. */
final class Client {
  private static final int TEXT_MAX = 64;

  private final Request request;
  private Path output;
  private int blockSize = 1024;
  private double timeout = 90;
  private double linger;
  private int count = 1;
  private String cancel = "get";
  private Path trusted;
  private final Dtls dtls = new Dtls();
  private String then;

  private Client(Request request) {
    this.request = request;
  }

  public static void main(String[] arguments) throws Exception {
    boolean observe = arguments[0].equals("observe");
    boolean many = arguments[0].equals("many");
    Code code = observe || many ? Code.GET : Code.valueOf(arguments[0].toUpperCase(Locale.ROOT));
    Client client = new Client(new Request(code));
    client.request.setURI(arguments[1]);
    client.parse(arguments);

    CoapEndpoint endpoint = client.endpoint(arguments[1]);
    endpoint.start();
    int status;
    if (many) {
      status = client.many(endpoint, arguments[1]);
    } else {
      status = observe ? client.observe(endpoint) : client.ask(endpoint);
    }
    System.out.flush();
    // Not by returning: the library's threads would keep the process for a while.
    System.exit(status);
  }

  private CoapEndpoint endpoint(String uri) throws Exception {
    Configuration configuration = Server.configuration(blockSize);
    CoapEndpoint.Builder builder = new CoapEndpoint.Builder();
    builder.setConfiguration(configuration);
    if (uri.startsWith("coap+tcp:")) {
      builder.setConnector(new TcpClientConnector(configuration));
    } else if (uri.startsWith("coaps+tcp:")) {
      builder.setConnector(new TlsClientConnector(Security.trusting(trusted), configuration));
    } else if (uri.startsWith("coaps:")) {
      builder.setConnector(dtls.connector(null, configuration));
    }
    return builder.build();
  }

  private void parse(String[] arguments) throws IOException {
    OptionSet options = request.getOptions();
    for (int i = 2; i < arguments.length; i++) {
      boolean taken = i + 1 < arguments.length && dtls.take(arguments[i], arguments[i + 1]);
      switch (arguments[i]) {
        case "--payload" -> request.setPayload(Files.readAllBytes(Path.of(arguments[++i])));
        case "--output" -> output = Path.of(arguments[++i]);
        case "--non" -> request.setType(Type.NON);
        case "--accept" -> options.setAccept(Integer.parseInt(arguments[++i]));
        case "--content-format" -> options.setContentFormat(Integer.parseInt(arguments[++i]));
        case "--if-match" -> options.addIfMatch(HexFormat.of().parseHex(arguments[++i]));
        case "--if-none-match" -> options.setIfNoneMatch(true);
        case "--etag" -> options.addETag(HexFormat.of().parseHex(arguments[++i]));
        case "--block-size" -> {
          blockSize = Integer.parseInt(arguments[++i]);
          if (request.getCode() == Code.GET) {
            options.setBlock2(BlockOption.size2Szx(blockSize), false, 0);
          }
        }
        case "--timeout" -> timeout = Double.parseDouble(arguments[++i]);
        case "--count" -> count = Integer.parseInt(arguments[++i]);
        case "--cancel" -> cancel = arguments[++i];
        case "--option" -> {
          String[] option = arguments[++i].split("=", 2);
          options.addOption(
              new Option(Integer.parseInt(option[0]), HexFormat.of().parseHex(option[1])));
        }
        case "--ca" -> trusted = Path.of(arguments[++i]);
        case "--then" -> then = arguments[++i];
        case "--linger" -> linger = Double.parseDouble(arguments[++i]);
        default -> {
          if (!taken) {
            throw new IllegalArgumentException("unknown: " + arguments[i]);
          }
          i++;
        }
      }
    }
  }

  private int ask(CoapEndpoint endpoint) throws InterruptedException, IOException {
    request.send(endpoint);
    Response response = request.waitForResponse((long) (timeout * 1000));
    if (response == null) {
      System.err.println("no response: " + request);
      return 1;
    }
    if (output != null) {
      Files.write(output, response.getPayload());
    }
    OptionSet options = response.getOptions();
    System.out.println(response.getCode().text);
    for (byte[] etag : options.getETags()) {
      System.out.println("etag " + HexFormat.of().formatHex(etag));
    }
    if (options.hasContentFormat()) {
      System.out.println("content-format " + options.getContentFormat());
    }
    return 0;
  }

  /**
   * Asks for one thing and then, without waiting, several times for another; prints the codes in the
   * order in which the answers come.
   */
  private int many(CoapEndpoint endpoint, String uri) throws InterruptedException {
    CountDownLatch all = new CountDownLatch(1 + count);
    tell(all, "first", request);
    request.send(endpoint);
    // The first has to be the first on the wire.
    Thread.sleep(100);
    String base = uri.substring(0, uri.lastIndexOf('/') + 1);
    for (int i = 0; i < count; i++) {
      Request more = new Request(Code.GET);
      more.setURI(base + then);
      tell(all, "then", more);
      more.send(endpoint);
    }
    return all.await((long) (timeout * 1000), TimeUnit.MILLISECONDS) ? 0 : 1;
  }

  private static void tell(CountDownLatch all, String name, Request request) {
    request.addMessageObserver(
        new MessageObserverAdapter() {
          @Override
          public void onResponse(Response response) {
            System.out.println(name + " " + response.getCode().text);
            System.out.flush();
            all.countDown();
          }
        });
  }

  private int observe(CoapEndpoint endpoint) throws InterruptedException {
    request.setObserve();
    CountDownLatch wanted = new CountDownLatch(count);
    CoapClient client = new CoapClient().setEndpoint(endpoint);
    CoapObserveRelation relation =
        client.observe(
            request,
            new CoapHandler() {
              @Override
              public synchronized void onLoad(CoapResponse response) {
                if (wanted.getCount() > 0) {
                  System.out.println(line(response.getPayload()));
                  System.out.flush();
                  wanted.countDown();
                }
              }

              @Override
              public void onError() {
                System.err.println("the observation failed");
              }
            });
    boolean all = wanted.await((long) (timeout * 1000), TimeUnit.MILLISECONDS);
    switch (cancel) {
      case "get" -> relation.proactiveCancel();
      // The next notification is answered by a Reset.
      case "rst" -> relation.reactiveCancel();
      default -> {}
    }
    // The cancelling GET is answered within this time on loopback.
    long least = cancel.equals("get") ? 500 : 0;
    Thread.sleep(Math.max(least, (long) (linger * 1000)));
    return all ? 0 : 1;
  }

  private static String line(byte[] payload) {
    if (payload.length <= TEXT_MAX) {
      return new String(payload, StandardCharsets.UTF_8);
    }
    return payload.length + " bytes crc32 " + HexFormat.of().formatHex(Server.etag(payload));
  }
}
