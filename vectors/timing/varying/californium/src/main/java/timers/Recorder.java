package timers;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

import org.eclipse.californium.core.config.CoapConfig.CongestionControlMode;

/**
 * Writes what Californium's congestion control layers do with made-up round trips, losses and
 * pauses, as timing vectors.
 *
 * Arguments: the folder for the vectors, which are californium-*.toml.
 */
public final class Recorder {

	private static final String VERSION = "Californium 3.14.0";
	/** Steps of a vector, at least. */
	private static final int STEPS = 90;
	/** Vectors of a file. */
	private static final int VECTORS = 2;
	/** Californium forgets a peer it has not used for ten minutes. */
	private static final long LONGEST_PAUSE = 500_000;
	/** Copies of a message: MAX_RETRANSMIT and the original. */
	private static final int COPIES = 5;

	private final Recorded recorded;
	private final Peer peer;
	private final Chance chance;
	private final RoundTrips roundTrips;
	private final List<String> steps = new ArrayList<>();
	private boolean measured;

	/** What is recorded, and the profile that should do the same. */
	private enum Recorded {

		COCOA("cocoa", CongestionControlMode.COCOA, 2, "Cocoa", "cocoa-californium",
				"ageing_late = \"true\""),
		COCOA_STRONG("cocoa-strong", CongestionControlMode.COCOA_STRONG, 0,
				"Cocoa, strong estimator only", "cocoa-s",
				"alpha = \"1/4\"", "beta = \"1/8\"", "granularity = \"100 ms\"",
				"tick = \"1 ms\"", "vbf_on = \"init-dithered\"", "rto_min = \"500 ms\"",
				"estimate_max = \"32 s\"", "blind = \"registered\"",
				"ageing_late = \"true\""),
		BASIC("basic-rto", CongestionControlMode.BASIC_RTO, 2, "BasicRto", "basic-rto",
				"retain_backoff = \"false\""),
		LINUX("linux-rto", CongestionControlMode.LINUX_RTO, 0, "LinuxRto", "linux-rto",
				"retain_backoff = \"false\""),
		PEAK_HOPPER("peak-hopper", CongestionControlMode.PEAKHOPPER_RTO, 0, "PeakhopperRto",
				"peak-hopper-cal", "retain_backoff = \"false\"");

		private final String file;
		private final CongestionControlMode mode;
		/** Most retransmissions after which an answer is a sample. */
		private final int samples;
		private final String what;
		private final String controller;
		private final String[] set;

		Recorded(String file, CongestionControlMode mode, int samples, String what,
				String controller, String... set) {
			this.file = file;
			this.mode = mode;
			this.samples = samples;
			this.what = what;
			this.controller = controller;
			this.set = set;
		}

		boolean ages() {
			return this == COCOA || this == COCOA_STRONG;
		}

		/** CoCoA's cap is draft-03's 32 s where the profile is not Californium's. */
		String parameters() {
			return this == COCOA_STRONG ? "parameters = { rto_max = \"60 s\" }\n" : "";
		}
	}

	private Recorder(Recorded recorded, int nstart, long seed) {
		this.recorded = recorded;
		peer = new Peer(recorded.mode, nstart);
		chance = new Chance(seed);
		roundTrips = new RoundTrips(chance);
	}

	public static void main(String[] arguments) throws IOException {
		Path folder = Path.of(arguments[0]);
		for (Recorded recorded : Recorded.values()) {
			StringBuilder text = new StringBuilder();
			text.append("# What ").append(VERSION).append(" does with its ").append(recorded.what)
					.append(".\n# Written by californium/; do not edit.\n")
					.append("# Format: crates/cc/tests/it/vectors.rs.\n\ntolerance_us = 1\n");
			for (int i = 0; i < VECTORS; i++) {
				Recorder recorder = new Recorder(recorded, 1, 100 * recorded.ordinal() + i);
				recorder.fill();
				recorder.write(text, "series " + (i + 1));
			}
			if (recorded.ages()) {
				Recorder recorder = new Recorder(recorded, 8, 0);
				recorder.crowd();
				recorder.write(text, "unmeasured, more and more running");
			}
			Files.writeString(folder.resolve("californium-" + recorded.file + ".toml"), text);
		}
	}

	private void write(StringBuilder text, String name) {
		text.append("\n[[vector]]\nname = \"").append(VERSION).append(' ').append(recorded.what)
				.append(", ").append(name).append("\"\nsource = \"recorded from ")
				.append(VERSION).append("\"\ncontroller = \"").append(recorded.controller)
				.append("\"\n");
		for (String constant : recorded.set) {
			text.append("set.").append(constant).append('\n');
		}
		text.append(recorded.parameters()).append("dither = \"low\"\nsteps = [\n");
		for (String step : steps) {
			text.append("  { ").append(step).append(" },\n");
		}
		text.append("]\n");
	}

	private void fill() {
		while (steps.size() < STEPS) {
			exchange();
			pause();
		}
	}

	/** Exchanges that all run at once before anything has been measured. */
	private void crowd() {
		for (int running = 0; running < 6; running++) {
			String more = running == 0 ? "" : ", running = " + running;
			steps.add("send = " + now() + more + ", timer = " + seconds(peer.send()));
			peer.advanceTo(peer.now() + 10);
		}
	}

	private void exchange() {
		long before = measured ? peer.rto() : 0;
		String sent = "send = " + now() + ", timer = " + seconds(peer.send());
		if (measured && peer.rto() != before) {
			// Aged, after the first timer had been set.
			sent += rto();
		}
		steps.add(sent);
		int lost = losses();
		long delay = roundTrips.delay();
		if (lost == 0 && delay > peer.timer() && chance.percent(60)) {
			// Round trips that grow no faster than the timer give samples that lift it.
			delay = peer.timer() * 9 / 10;
		}
		long answered = Long.MAX_VALUE;
		while (true) {
			if (peer.retransmissions() == lost) {
				answered = peer.now() + delay;
			}
			if (answered < peer.due()) {
				answer(answered);
				return;
			}
			boolean more = peer.expire();
			if (!more) {
				steps.add("fail = " + now() + (recorded.ages() ? "" : rto()));
				return;
			}
			steps.add("expire = " + now() + ", timer = " + seconds(peer.timer()));
		}
	}

	private void answer(long at) {
		peer.advanceTo(at);
		boolean sample = peer.retransmissions() <= recorded.samples;
		peer.answer();
		measured |= sample;
		// After an answer that is no sample, ageing may be due, which only the next message shows.
		steps.add("answer = " + now() + (sample || !recorded.ages() ? rto() : ""));
	}

	/** Mostly a short pause; sometimes one after which CoCoA ages. */
	private void pause() {
		int choice = chance.below(100);
		long pause;
		if (choice < 55) {
			pause = chance.between(0, 500);
		} else if (choice < 70) {
			pause = chance.between(500, 6000);
		} else if (!measured || choice < 75) {
			pause = chance.between(6000, 70_000);
		} else {
			pause = peer.rto() * (peer.rto() < 1000 ? 16 : 4) * chance.between(110, 400) / 100;
		}
		peer.advanceTo(peer.now() + Math.min(pause, LONGEST_PAUSE));
	}

	private int losses() {
		if (chance.percent(4)) {
			return COPIES;
		}
		int lost = 0;
		while (lost < COPIES && chance.percent(lost == 0 ? 27 : 45)) {
			lost++;
		}
		return lost;
	}

	private String rto() {
		return measured ? ", rto = " + seconds(peer.rto()) : "";
	}

	private String now() {
		return seconds(peer.now());
	}

	private static String seconds(long millis) {
		return String.format("\"%d.%03d s\"", millis / 1000, millis % 1000);
	}

	/** Round-trip times in milliseconds that drift, jump every few exchanges, and spike. */
	private static final class RoundTrips {

		private static final long[][] LEVELS = { { 20, 30, 50, 80, 120, 200 },
				{ 1900, 2400, 2900, 3500, 4500, 6000, 8000 }, { 300, 450, 600, 800, 1100, 1500 } };

		private final Chance chance;
		private long level;
		private int lasts;
		private int turn;

		RoundTrips(Chance chance) {
			this.chance = chance;
			level = chance.pick(LEVELS[0]);
			lasts = 6;
		}

		long delay() {
			if (lasts == 0) {
				turn++;
				level = chance.pick(LEVELS[turn % LEVELS.length]);
				lasts = 4 + chance.below(4);
			}
			lasts--;
			level = level * chance.between(95, 106) / 100;
			long delay = level * chance.between(90, 112) / 100;
			if (chance.below(14) == 0) {
				delay *= 3;
			}
			return Math.min(Math.max(delay, 15), 9000);
		}
	}

	/** A linear congruential generator (Knuth's MMIX constants), so that files never change. */
	private static final class Chance {

		private long state;

		Chance(long seed) {
			state = seed;
			below(1);
		}

		int below(int n) {
			state = state * 6364136223846793005L + 1442695040888963407L;
			return (int) ((state >>> 33) % n);
		}

		boolean percent(int p) {
			return below(100) < p;
		}

		long between(long low, long high) {
			return low + below((int) (high - low + 1));
		}

		long pick(long[] values) {
			return values[below(values.length)];
		}
	}
}
