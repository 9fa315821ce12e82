package timers;

import java.lang.reflect.Method;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.concurrent.Delayed;
import java.util.concurrent.FutureTask;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

import org.eclipse.californium.core.coap.CoAP.ResponseCode;
import org.eclipse.californium.core.coap.CoAP.Type;
import org.eclipse.californium.core.coap.Request;
import org.eclipse.californium.core.coap.Response;
import org.eclipse.californium.core.config.CoapConfig;
import org.eclipse.californium.core.config.CoapConfig.CongestionControlMode;
import org.eclipse.californium.core.network.Exchange;
import org.eclipse.californium.core.network.Exchange.Origin;
import org.eclipse.californium.core.network.stack.AbstractLayer;
import org.eclipse.californium.core.network.stack.CongestionControlLayer;
import org.eclipse.californium.core.network.stack.RemoteEndpoint;
import org.eclipse.californium.elements.AddressEndpointContext;
import org.eclipse.californium.elements.config.Configuration;
import org.eclipse.californium.elements.util.ClockUtil;

/**
 * One peer behind Californium's own congestion control layer, in a time of our own.
 *
 * The layer runs as it is: it sends through {@link Wire}, sets its timers on {@link Timers}, and
 * reads the clock of {@link ClockUtil}, which Californium lets applications replace. Only its
 * current RTO has to be reached by reflection.
 */
final class Peer {

	/** Later than the start, where Californium takes 0 for a time that was never set. */
	private static final long EPOCH = 1_000_000_000L;

	private final CongestionControlLayer layer;
	private final Timers timers = new Timers();
	private final InetSocketAddress address =
			new InetSocketAddress(InetAddress.getLoopbackAddress(), 5683);
	private long millis;
	private int mid = 1;
	private Exchange exchange;

	Peer(CongestionControlMode mode, int nstart) {
		CoapConfig.register();
		Configuration config = Configuration.createStandardWithoutFile();
		config.set(CoapConfig.CONGESTION_CONTROL_ALGORITHM, mode);
		config.set(CoapConfig.NSTART, nstart);
		// No dithering; ACK_TIMEOUT, MAX_RETRANSMIT and the rest keep their defaults.
		config.set(CoapConfig.ACK_INIT_RANDOM, 1.0f);
		ClockUtil.setRealtimeHandler(() -> EPOCH + TimeUnit.MILLISECONDS.toNanos(millis));
		layer = (CongestionControlLayer) CongestionControlLayer.newImplementation("", config);
		layer.setExecutors(timers, timers);
		layer.setLowerLayer(new Wire());
		layer.setUpperLayer(new Wire());
	}

	long now() {
		return millis;
	}

	/** Lets time pass. */
	void advanceTo(long later) {
		if (later < millis || (timers.running() && later > timers.due)) {
			throw new IllegalStateException("a timer runs out before " + later);
		}
		millis = later;
	}

	/** Sends a new CON request and returns its first timer. */
	long send() {
		Request request = Request.newGet();
		request.setDestinationContext(new AddressEndpointContext(address));
		request.setMID(mid++);
		exchange = new Exchange(request, address, Origin.LOCAL, null);
		exchange.setEndpointContext(request.getDestinationContext());
		timers.forget();
		layer.sendRequest(exchange, request);
		return timers.delay();
	}

	/** When the running timer runs out. */
	long due() {
		return timers.due;
	}

	/** Lets the running timer run out; says whether another copy left. */
	boolean expire() {
		advanceTo(timers.due);
		Runnable task = timers.task;
		timers.forget();
		task.run();
		return timers.running();
	}

	/** The timer that runs. */
	long timer() {
		return timers.delay();
	}

	int retransmissions() {
		return exchange.getFailedTransmissionCount();
	}

	/** The request is answered inside an ACK. */
	void answer() {
		Response response = new Response(ResponseCode.CONTENT);
		response.setType(Type.ACK);
		response.setMID(exchange.getCurrentRequest().getMID());
		response.setTransmissionRttNanos(exchange.calculateTransmissionRtt());
		layer.receiveResponse(exchange, response);
		if (timers.running()) {
			throw new IllegalStateException("an answer stops the timer");
		}
	}

	/** What the peer's next first timer is made of. */
	long rto() {
		try {
			Method find = CongestionControlLayer.class.getDeclaredMethod("getRemoteEndpoint",
					Exchange.class);
			find.setAccessible(true);
			return ((RemoteEndpoint) find.invoke(layer, exchange)).getRTO();
		} catch (ReflectiveOperationException e) {
			throw new IllegalStateException(e);
		}
	}

	/** Above and below the layer: notes when a copy leaves, as CoapEndpoint does. */
	private static final class Wire extends AbstractLayer {

		@Override
		public void sendRequest(Exchange exchange, Request request) {
			if (exchange.getFailedTransmissionCount() == 0) {
				exchange.startTransmissionRtt();
			}
			request.setSent(true);
		}

		@Override
		public void receiveResponse(Exchange exchange, Response response) {
			// The application has no use for it.
		}
	}

	/** The one timer of an exchange, which runs out when the driver says so; no thread waits. */
	private final class Timers extends ScheduledThreadPoolExecutor {

		private Runnable task;
		private long set;
		private long due;

		Timers() {
			super(1);
		}

		boolean running() {
			return task != null;
		}

		long delay() {
			return due - set;
		}

		void forget() {
			task = null;
		}

		@Override
		public ScheduledFuture<?> schedule(Runnable command, long delay, TimeUnit unit) {
			task = command;
			set = millis;
			due = millis + unit.toMillis(delay);
			return new Handle(command);
		}

		/** What the layer cancels a timer with. */
		private final class Handle extends FutureTask<Object> implements ScheduledFuture<Object> {

			private final Runnable command;

			Handle(Runnable command) {
				super(command, null);
				this.command = command;
			}

			@Override
			public boolean cancel(boolean interrupt) {
				if (task == command) {
					forget();
				}
				return super.cancel(interrupt);
			}

			@Override
			public long getDelay(TimeUnit unit) {
				return unit.convert(due - millis, TimeUnit.MILLISECONDS);
			}

			@Override
			public int compareTo(Delayed other) {
				return Long.compare(getDelay(TimeUnit.MILLISECONDS),
						other.getDelay(TimeUnit.MILLISECONDS));
			}
		}
	}
}
