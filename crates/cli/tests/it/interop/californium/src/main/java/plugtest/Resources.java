package plugtest;

import static org.eclipse.californium.core.coap.CoAP.ResponseCode.CHANGED;
import static org.eclipse.californium.core.coap.CoAP.ResponseCode.CONTENT;
import static org.eclipse.californium.core.coap.CoAP.ResponseCode.CREATED;
import static org.eclipse.californium.core.coap.CoAP.ResponseCode.DELETED;
import static org.eclipse.californium.core.coap.CoAP.ResponseCode.NOT_ACCEPTABLE;
import static org.eclipse.californium.core.coap.CoAP.ResponseCode.NOT_FOUND;
import static org.eclipse.californium.core.coap.CoAP.ResponseCode.PRECONDITION_FAILED;
import static org.eclipse.californium.core.coap.CoAP.ResponseCode.VALID;
import static org.eclipse.californium.core.coap.MediaTypeRegistry.APPLICATION_LINK_FORMAT;
import static org.eclipse.californium.core.coap.MediaTypeRegistry.APPLICATION_XML;
import static org.eclipse.californium.core.coap.MediaTypeRegistry.TEXT_PLAIN;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Locale;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.IntFunction;
import java.util.zip.CRC32;
import org.eclipse.californium.core.CoapResource;
import org.eclipse.californium.core.CoapServer;
import org.eclipse.californium.core.coap.CoAP.Type;
import org.eclipse.californium.core.coap.LinkFormat;
import org.eclipse.californium.core.coap.OptionSet;
import org.eclipse.californium.core.coap.Response;
import org.eclipse.californium.core.server.resources.CoapExchange;
import org.eclipse.californium.core.server.resources.Resource;

/** The resources that the test descriptions name. */
final class Resources {
  private static final long SEPARATE_MILLIS = 600;
  private static final int LARGE_BYTES = 1280;
  private static final int LINE_BYTES = 64;

  private static final ScheduledExecutorService TIMER =
      Executors.newScheduledThreadPool(
          1,
          task -> {
            Thread thread = new Thread(task, "timer");
            thread.setDaemon(true);
            return thread;
          });

  private Resources() {}

  static void add(CoapServer server, int tickMillis) {
    Stored created = new Stored("location3", null);
    CoapResource large = text("large", lines());
    large.getAttributes().addResourceType("block");
    large.getAttributes().setMaximumSizeEstimate(LARGE_BYTES);
    server.add(
        new Test(created),
        within("location1", within("location2", created)),
        within("seg1", within("seg2", text("seg3", "three segments down"))),
        new Query(),
        new Separate(),
        new LocationQuery(),
        new MultiFormat(),
        new Stored("validate", "at first, this"),
        new Stored("create1", null),
        large,
        new Stored("large-update", lines()),
        new LargeCreate(),
        new LargePost(),
        link("link1", "If1", "Type1", "Type2"),
        link("link2", "If2", "Type2", "Type3"),
        link("link3", "foo", "Type1", "Type3"),
        new Collection(),
        new Observed("obs", Type.CON, tickMillis, Resources::shortText),
        new Observed("obs-non", Type.NON, tickMillis, Resources::shortText),
        new Observed("obs-large", Type.CON, tickMillis, Resources::longText),
        new Observed(
            "obs-pumping",
            Type.CON,
            tickMillis,
            ticks -> ticks % 2 == 0 ? shortText(ticks) : longText(ticks)));
  }

  /** Nothing changes by itself any more. */
  static void stop(CoapServer server) {
    for (Resource resource : server.getRoot().getChildren()) {
      if (resource instanceof Observed observed) {
        observed.stop();
      }
    }
  }

  private static byte[] etag(byte[] payload) {
    CRC32 sum = new CRC32();
    sum.update(payload);
    return ByteBuffer.allocate(4).putInt((int) sum.getValue()).array();
  }

  private static String lines() {
    StringBuilder text = new StringBuilder();
    for (int i = 0; i < LARGE_BYTES / LINE_BYTES; i++) {
      text.append(String.format("%-" + (LINE_BYTES - 1) + "s\n", "line " + i));
    }
    return text.toString();
  }

  private static String shortText(int ticks) {
    return "tick " + ticks;
  }

  private static String longText(int ticks) {
    String line = "tick " + ticks + " ";
    return line.repeat(270 / line.length());
  }

  private static CoapResource within(String name, CoapResource child) {
    CoapResource parent = new CoapResource(name, false);
    parent.add(child);
    return parent;
  }

  private static CoapResource text(String name, String text) {
    return new CoapResource(name) {
      @Override
      public void handleGET(CoapExchange exchange) {
        exchange.respond(CONTENT, text, TEXT_PLAIN);
      }
    };
  }

  private static CoapResource link(String name, String description, String... types) {
    CoapResource link = text(name, "a target of links");
    for (String type : types) {
      link.getAttributes().addResourceType(type);
    }
    link.getAttributes().addInterfaceDescription(description);
    return link;
  }

  /** Holds what was put into it; a DELETE brings back what was there at first. */
  private static class Stored extends CoapResource {
    private final byte[] initial;
    private byte[] payload;
    private int format = TEXT_PLAIN;

    Stored(String name, String initial) {
      super(name);
      this.initial = initial == null ? null : initial.getBytes(StandardCharsets.UTF_8);
      this.payload = this.initial;
    }

    private boolean conditionHolds(OptionSet options) {
      if (options.hasIfNoneMatch() && payload != null) {
        return false;
      }
      return options.getIfMatchCount() == 0
          || (payload != null && options.isIfMatch(etag(payload)));
    }

    synchronized boolean set(CoapExchange exchange) {
      boolean created = payload == null;
      payload = exchange.getRequestPayload();
      OptionSet options = exchange.getRequestOptions();
      format = options.hasContentFormat() ? options.getContentFormat() : TEXT_PLAIN;
      return created;
    }

    @Override
    public synchronized void handleGET(CoapExchange exchange) {
      if (payload == null) {
        exchange.respond(NOT_FOUND);
        return;
      }
      exchange.setETag(etag(payload));
      if (exchange.getRequestOptions().containsETag(etag(payload))) {
        exchange.respond(VALID);
      } else {
        exchange.respond(CONTENT, payload, format);
      }
    }

    @Override
    public synchronized void handlePUT(CoapExchange exchange) {
      if (conditionHolds(exchange.getRequestOptions())) {
        exchange.respond(set(exchange) ? CREATED : CHANGED);
      } else {
        exchange.respond(PRECONDITION_FAILED);
      }
    }

    @Override
    public synchronized void handleDELETE(CoapExchange exchange) {
      payload = initial;
      exchange.respond(DELETED);
    }
  }

  private static final class Test extends Stored {
    private final Stored created;

    Test(Stored created) {
      super("test", "a resource to be tested");
      this.created = created;
    }

    @Override
    public void handlePOST(CoapExchange exchange) {
      created.set(exchange);
      exchange.setLocationPath("location1/location2/location3");
      exchange.respond(CREATED);
    }
  }

  private static final class Query extends CoapResource {
    Query() {
      super("query");
    }

    @Override
    public void handleGET(CoapExchange exchange) {
      String arguments = String.join("\n", exchange.getRequestOptions().getUriQuery());
      exchange.respond(CONTENT, "asked for:\n" + arguments, TEXT_PLAIN);
    }
  }

  private static final class Separate extends CoapResource {
    Separate() {
      super("separate");
    }

    @Override
    public void handleGET(CoapExchange exchange) {
      exchange.accept();
      TIMER.schedule(
          () -> exchange.respond(CONTENT, "sorry for the delay", TEXT_PLAIN),
          SEPARATE_MILLIS,
          TimeUnit.MILLISECONDS);
    }
  }

  private static final class LocationQuery extends CoapResource {
    LocationQuery() {
      super("location-query");
    }

    @Override
    public void handlePOST(CoapExchange exchange) {
      exchange.setLocationQuery("first=1&second=2");
      exchange.respond(CREATED);
    }
  }

  private static final class MultiFormat extends CoapResource {
    MultiFormat() {
      super("multi-format");
      getAttributes().addContentTypes(TEXT_PLAIN, APPLICATION_XML);
    }

    @Override
    public void handleGET(CoapExchange exchange) {
      OptionSet options = exchange.getRequestOptions();
      if (!options.hasAccept() || options.isAccept(TEXT_PLAIN)) {
        exchange.respond(CONTENT, "in words", TEXT_PLAIN);
      } else if (options.isAccept(APPLICATION_XML)) {
        exchange.respond(CONTENT, "<in>marks</in>", APPLICATION_XML);
      } else {
        exchange.respond(NOT_ACCEPTABLE);
      }
    }
  }

  private static final class LargeCreate extends CoapResource {
    private int count;

    LargeCreate() {
      super("large-create");
    }

    @Override
    public synchronized void handlePOST(CoapExchange exchange) {
      count += 1;
      Stored created = new Stored(Integer.toString(count), null);
      created.set(exchange);
      add(created);
      exchange.setLocationPath("large-create/" + count);
      exchange.respond(CREATED);
    }
  }

  private static final class LargePost extends CoapResource {
    LargePost() {
      super("large-post");
    }

    @Override
    public void handlePOST(CoapExchange exchange) {
      exchange.respond(CHANGED, exchange.getRequestText().toUpperCase(Locale.ROOT), TEXT_PLAIN);
    }
  }

  /** Lists its members, which are not listed elsewhere. */
  private static final class Collection extends CoapResource {
    Collection() {
      super("path");
      getAttributes().addContentType(APPLICATION_LINK_FORMAT);
      for (String name : new String[] {"sub1", "sub2", "sub3"}) {
        CoapResource member = text(name, "/path/" + name);
        member.getAttributes().addInterfaceDescription("sub");
        add(member);
      }
    }

    @Override
    public void handleGET(CoapExchange exchange) {
      exchange.respond(CONTENT, LinkFormat.serializeTree(this), APPLICATION_LINK_FORMAT);
    }
  }

  /** Changes at every tick, and by PUT and DELETE; what these did lasts until the next tick. */
  private static final class Observed extends CoapResource {
    private final IntFunction<String> show;
    private final int tickMillis;
    private ScheduledFuture<?> next;
    private int ticks;
    private byte[] put;
    private int format = TEXT_PLAIN;
    private boolean deleted;

    Observed(String name, Type type, int tickMillis, IntFunction<String> show) {
      super(name);
      this.show = show;
      this.tickMillis = tickMillis;
      setObservable(true);
      setObserveType(type);
      getAttributes().setObservable();
      getAttributes().addResourceType("observe");
      schedule();
    }

    private synchronized void schedule() {
      if (next != null) {
        next.cancel(false);
      }
      next = TIMER.scheduleAtFixedRate(this::tick, tickMillis, tickMillis, TimeUnit.MILLISECONDS);
    }

    synchronized void stop() {
      next.cancel(false);
    }

    private void tick() {
      synchronized (this) {
        ticks += 1;
        put = null;
        deleted = false;
        format = TEXT_PLAIN;
      }
      changed();
    }

    @Override
    public synchronized void handleGET(CoapExchange exchange) {
      if (deleted) {
        exchange.respond(NOT_FOUND);
        return;
      }
      Response response = new Response(CONTENT);
      response.setPayload(put == null ? show.apply(ticks).getBytes(StandardCharsets.UTF_8) : put);
      response.getOptions().setContentFormat(format);
      response.getOptions().setMaxAge(tickMillis / 1000 + 2);
      exchange.respond(response);
    }

    @Override
    public void handlePUT(CoapExchange exchange) {
      boolean sameFormat;
      synchronized (this) {
        sameFormat = exchange.getRequestOptions().isContentFormat(format);
        format = exchange.getRequestOptions().getContentFormat();
        put = exchange.getRequestPayload();
        schedule();
      }
      if (sameFormat) {
        changed();
      } else {
        clearAndNotifyObserveRelations(NOT_ACCEPTABLE);
      }
      exchange.respond(CHANGED);
    }

    @Override
    public void handleDELETE(CoapExchange exchange) {
      synchronized (this) {
        deleted = true;
        schedule();
      }
      clearAndNotifyObserveRelations(NOT_FOUND);
      exchange.respond(DELETED);
    }
  }
}
