package plugtest;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.eclipse.californium.core.CoapClient;
import org.eclipse.californium.core.CoapHandler;
import org.eclipse.californium.core.CoapObserveRelation;
import org.eclipse.californium.core.CoapResponse;
import org.eclipse.californium.core.CoapServer;
import org.eclipse.californium.core.coap.BlockOption;
import org.eclipse.californium.core.coap.CoAP.Code;
import org.eclipse.californium.core.coap.CoAP.Type;
import org.eclipse.californium.core.coap.MessageObserverAdapter;
import org.eclipse.californium.core.coap.OptionSet;
import org.eclipse.californium.core.coap.Request;
import org.eclipse.californium.core.coap.Response;
import org.eclipse.californium.core.coap.Token;
import org.eclipse.californium.core.config.CoapConfig;
import org.eclipse.californium.core.network.CoapEndpoint;
import org.eclipse.californium.elements.config.Configuration;
import org.eclipse.californium.elements.config.UdpConfig;

/** Californium's clients and servers, as many as the tests ask for; see README.md two folders up. */
final class Peer {
  /** As suggested: what is large then has several blocks. */
  private static final int SERVER_BLOCK_BYTES = 64;

  private static final Map<String, CoapServer> SERVERS = new ConcurrentHashMap<>();
  private static final Map<String, CoapEndpoint> CLIENTS = new ConcurrentHashMap<>();
  private static final Map<String, CoapObserveRelation> OBSERVATIONS = new ConcurrentHashMap<>();

  private Peer() {}

  /** Carries out a command a line until its input ends. */
  public static void main(String[] arguments) throws Exception {
    CoapConfig.register();
    UdpConfig.register();
    BufferedReader input =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = input.readLine(); line != null; line = input.readLine()) {
      List<String> words = Arrays.asList(line.split(" "));
      try {
        carryOut(words.get(0), words.get(1), words.subList(2, words.size()));
      } catch (Exception error) {
        say(words.get(0), "failed " + error);
      }
    }
    // Not by returning: the library's threads would keep the process for a while.
    System.exit(0);
  }

  private static void carryOut(String tag, String verb, List<String> rest) throws Exception {
    switch (verb) {
      case "serve" -> serve(tag, rest);
      case "client" -> client(tag, rest);
      case "close" -> close(tag);
      case "ask" -> ask(tag, request(Code.valueOf(rest.get(2)), rest.get(1), rest.get(3), rest));
      case "ping" -> ping(tag, rest);
      case "observe" -> observe(tag, request(Code.GET, rest.get(1), rest.get(3), rest), rest);
      case "stop" -> OBSERVATIONS.remove(tag).proactiveCancel();
      case "forget" -> {
        OBSERVATIONS.remove(tag).reactiveCancel();
        say(tag, "forgotten");
      }
      default -> throw new IllegalArgumentException(verb);
    }
  }

  private static synchronized void say(String tag, String text) {
    System.out.println(tag + " " + text);
    System.out.flush();
  }

  /** Without a properties file, which the library would otherwise write where it is started. */
  private static Configuration configuration(int blockBytes, int ackMillis, int retransmissions) {
    Configuration configuration = Configuration.createStandardWithoutFile();
    configuration.set(CoapConfig.PREFERRED_BLOCK_SIZE, blockBytes);
    configuration.set(CoapConfig.MAX_MESSAGE_SIZE, blockBytes);
    configuration.set(CoapConfig.ACK_TIMEOUT, ackMillis, TimeUnit.MILLISECONDS);
    configuration.set(CoapConfig.MAX_RETRANSMIT, retransmissions);
    // Otherwise NON notifications now and then turn into CON ones.
    configuration.set(CoapConfig.NOTIFICATION_CHECK_INTERVAL_COUNT, 1_000);
    configuration.set(CoapConfig.NOTIFICATION_CHECK_INTERVAL_TIME, 1_000, TimeUnit.SECONDS);
    return configuration;
  }

  private static CoapEndpoint endpoint(Configuration configuration, int port) {
    CoapEndpoint.Builder builder = new CoapEndpoint.Builder();
    builder.setConfiguration(configuration);
    builder.setInetSocketAddress(new InetSocketAddress(InetAddress.getLoopbackAddress(), port));
    return builder.build();
  }

  private static int number(List<String> words, int index) {
    return Integer.parseInt(words.get(index));
  }

  /** PORT TICK ACK_TIMEOUT MAX_RETRANSMIT, times in milliseconds. */
  private static void serve(String tag, List<String> rest) {
    Configuration configuration =
        configuration(SERVER_BLOCK_BYTES, number(rest, 2), number(rest, 3));
    CoapServer server = new CoapServer(configuration);
    server.addEndpoint(endpoint(configuration, number(rest, 0)));
    Resources.add(server, number(rest, 1));
    server.start();
    SERVERS.put(tag, server);
    say(tag, "ready");
  }

  /** BLOCK_BYTES ACK_TIMEOUT MAX_RETRANSMIT. */
  private static void client(String tag, List<String> rest) throws Exception {
    CoapEndpoint client =
        endpoint(configuration(number(rest, 0), number(rest, 1), number(rest, 2)), 0);
    client.start();
    CLIENTS.put(tag, client);
    say(tag, "ready");
  }

  private static void close(String tag) {
    CoapServer server = SERVERS.remove(tag);
    if (server != null) {
      Resources.stop(server);
      server.destroy();
    }
    CoapEndpoint client = CLIENTS.remove(tag);
    if (client != null) {
      client.destroy();
    }
    say(tag, "closed");
  }

  /** CLIENT TYPE METHOD URI and what else is to be in it, as NAME=VALUE. */
  private static Request request(Code method, String type, String uri, List<String> rest) {
    Request request = new Request(method, type.equals("con") ? Type.CON : Type.NON);
    request.setURI(uri);
    OptionSet options = request.getOptions();
    for (String word : rest.subList(4, rest.size())) {
      String[] pair = word.split("=", 2);
      String value = pair[1];
      switch (pair[0]) {
        case "format" -> options.setContentFormat(Integer.parseInt(value));
        case "accept" -> options.setAccept(Integer.parseInt(value));
        case "etag" -> options.addETag(HexFormat.of().parseHex(value));
        case "if-match" -> options.addIfMatch(HexFormat.of().parseHex(value));
        case "if-none-match" -> options.setIfNoneMatch(true);
        case "block2" -> options.setBlock2(BlockOption.size2Szx(Integer.parseInt(value)), false, 0);
        case "token" -> request.setToken(new Token(HexFormat.of().parseHex(value)));
        case "payload" -> request.setPayload(HexFormat.of().parseHex(value));
        default -> throw new IllegalArgumentException(word);
      }
    }
    request.setUserContext(Map.of("client", rest.get(0)));
    return request;
  }

  private static CoapEndpoint clientOf(Request request) {
    return CLIENTS.get(request.getUserContext().get("client"));
  }

  private static void ask(String tag, Request request) {
    request.addMessageObserver(
        new MessageObserverAdapter() {
          @Override
          public void onResponse(Response response) {
            say(tag, "answer " + told(response));
          }

          @Override
          protected void failed() {
            say(tag, "failed " + request);
          }
        });
    request.send(clientOf(request));
  }

  private static void ping(String tag, List<String> rest) {
    Request ping = Request.newPing();
    ping.setToken(Token.EMPTY);
    ping.setURI(rest.get(1));
    ping.addMessageObserver(
        new MessageObserverAdapter() {
          @Override
          public void onReject() {
            say(tag, "answer 0.00");
          }

          @Override
          public void onTimeout() {
            say(tag, "failed timeout");
          }
        });
    ping.send(CLIENTS.get(rest.get(0)));
  }

  private static void observe(String tag, Request request, List<String> rest) {
    request.setObserve();
    CoapClient client = new CoapClient().setEndpoint(clientOf(request));
    CoapHandler handler =
        new CoapHandler() {
          @Override
          public void onLoad(CoapResponse response) {
            say(tag, "state " + told(response.advanced()));
          }

          @Override
          public void onError() {
            say(tag, "failed observation");
          }
        };
    OBSERVATIONS.put(tag, client.observe(request, handler));
  }

  private static String told(Response response) {
    OptionSet options = response.getOptions();
    StringBuilder text = new StringBuilder(response.getCode().text);
    if (options.hasContentFormat()) {
      text.append(" format=").append(options.getContentFormat());
    }
    options.getETags().forEach(tag -> text.append(" etag=").append(HexFormat.of().formatHex(tag)));
    options.getLocationPath().forEach(path -> text.append(" location-path=").append(path));
    options.getLocationQuery().forEach(query -> text.append(" location-query=").append(query));
    text.append(" payload=").append(HexFormat.of().formatHex(response.getPayload()));
    return text.toString();
  }
}
