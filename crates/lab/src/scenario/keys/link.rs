//! Keys of the link, and of TCP over it.

keys! {
    /// The keys.
    pub(super) LINK_KEYS;

    "link.mtu", Bytes(68, 65_535), "1280 B",
        "Largest packet, headers included; a larger one crosses in fragments, as IPv4 makes them.";
    "link.header", Bytes(0, 128), "28 B",
        "IP and UDP headers each datagram adds on the link.";
    "link.buffer", Buffer, "inf",
        "Bottleneck buffer of each direction, headers and the packet in service included.";
    "link.queue", Word(&["drop-tail", "codel", "fq-codel"]), "drop-tail",
        "What is dropped or marked before the buffers are full: nothing, as CoDel (RFC 8289) says, or CoDel with a queue for each client (FQ-CoDel, RFC 8290; over UDP).";
    "link.ecn", Word(&["off", "on"]), "off",
        "Whether `codel` marks packets of connections that agreed on it (`tcp.ecn`) instead of dropping them (RFC 3168).";
    "link.codel_target", Time, -,
        "Standing wait that is too long for CoDel; by default 5 ms, or the time of a packet of `link.mtu` on the line if that is longer (RFC 8289 4.4).";
    "link.codel_interval", Time, "100 ms",
        "How long it must have been so; a typical round-trip time (RFC 8289 4.3).";
    "link.extra_delay", Distribution, "0 ms",
        "Delay on top of propagation, in each direction: constant, or drawn for each packet without reordering.";
    "link.error", Word(&["none", "low", "medium", "high"]), "none",
        "Random loss after the bottleneck: 0, 2, 10 or 18 % on average (thesis, Table 5).";
    "link.loss", Percent, "0 %",
        "Random loss after the bottleneck, of each packet by itself unless `link.loss_burst` says otherwise. It needs `link.error` = `none`; set on the command line, it replaces a class that the scenario does not sweep.";
    "link.loss_burst", Number, "1",
        "Mean length of a run of losses in packets, with `link.loss`: above 1, packets are lost in a state of that mean length, and only in it (Gilbert's model).";
    "link.loss_burst_time", Time, -,
        "The same in time, in place of `link.loss_burst`: the state lasts so long on average, whatever is sent meanwhile. Traffic with pauses meets runs of losses in packets for minutes, which a fading channel does not have.";
    "link.error_directions", Word(&["both", "down", "up"]), "both",
        "Directions with random loss, bit errors, corruption, reordering and duplication.";
    "link.error_clock", Word(&["packet", "time"]), "packet",
        "What moves the two-state chain of medium and high error: packets, or time.";
    "link.error_burst_packets", Number, "1.4",
        "Mean length of the error state in packets, with the packet clock.";
    "link.error_burst_time", Time, "100 ms",
        "Mean length of the error state, with the time clock.";
    "link.error_states", Word(&["own", "shared"]), "own",
        "With the time clock: whether each direction has a chain of its own, or both have one and so their error states together.";
    "link.error_fraction", Percent, -,
        "Share of the error state; by default 20 % (medium) or 20.5 % (high).";
    "link.idle_setup", Distribution, -,
        "Set-up of a device's connection, which its first packet after idle waits for, in either direction. Without it, there is none.";
    "link.idle_after", Time, "20 s", needs "link.idle_setup",
        "Time without a packet of the device after which it is idle, with `link.idle_setup`.";
    "link.paging_cycle", Time, -, needs "link.idle_setup",
        "Time between the paging occasions of an idle device (DRX, eDRX), at which a packet to it begins the set-up of its connection; with `link.idle_setup`. Without it, idle devices can be reached at once.";
    "link.paging_window", Time, "10 ms", needs "link.paging_cycle",
        "Time for which the device listens at each.";
    "link.psm_active", Time, -, needs "link.idle_setup",
        "Time that an idle device can be reached before power saving mode (T3324): then packets to it wait for its next periodic wake-up. Without it, there is no such mode.";
    "link.psm_interval", Time, "1 h", needs "link.psm_active",
        "Time between periodic wake-ups (T3412), with `link.psm_active`.";
    "link.power_send", Power, -,
        "Power of a device's radio while it sends. With it, the energy of devices is measured, from their times in each state. 545 mW in 3GPP TR 45.820.";
    "link.power_receive", Power, "90 mW", needs "link.power_send",
        "Power while it receives (3GPP TR 45.820, as those that follow).";
    "link.power_listen", Power, "90 mW", needs "link.power_send",
        "Power while it is connected and waits, without `link.idle_setup` always, and in paging windows.";
    "link.power_idle", Power, "3 mW", needs "link.power_send",
        "Power while it is idle.";
    "link.power_sleep", Power, "15 uW", needs "link.power_send",
        "Power in power saving mode.";
    "link.duplex", Word(&["full", "half"]), "full", needs "link.up.device_rate",
        "Whether the radio of a device with `device_rate` sends and receives at the same time, or in turn (NB-IoT).";
    "link.duplex_turnaround", Time, "0 s", needs "link.up.device_rate",
        "Time from sending to receiving and back, with `link.duplex` = `half`.";
    "link.fragment", Bytes(1, 65_535), -, needs "link.up.device_rate",
        "Bytes of a packet that a frame of a device with `device_rate` carries: SCHC fragments, as over LoRaWAN (RFC 9011). Without it, packets are whole.";
    "link.fragment_header", Bytes(0, 255), "15 B", needs "link.fragment",
        "Headers of each frame: 13 B of LoRaWAN and 2 B of SCHC.";
    "link.fragment_loss", Percent, "0 %", needs "link.fragment",
        "Share of frames lost, each by itself, besides loss of packets.";
    "link.fragment_mode", Word(&["no-ack", "ack-on-error"]), "no-ack", needs "link.fragment",
        "A lost frame loses the packet, or costs a round: `link.fragment_ack` until the acknowledgement, then the frames that were lost, in 8 rounds at most.";
    "link.fragment_ack", Time, "2 s", needs "link.fragment",
        "Time from the last frame of a round to its acknowledgement, with `ack-on-error`.";
    "link.fragment_window", Bytes(1, 65_535), -, needs "link.fragment",
        "Bytes of a window, with `ack-on-error`: packets from the device that need several frames are acknowledged window by window (RFC 9011: 630 B, 63 tiles of 10 B). Shorter ones are not fragments. Without it, one acknowledgement is of the packet and none is lost.";
    "link.fragment_ack_loss", Percent, "0 %", needs "link.fragment_window",
        "Share of acknowledgements of windows lost.";
    "link.fragment_timer", Time, "10 s", needs "link.fragment_window",
        "Time without the acknowledgement of a window after which the device requests it again, 8 times in all (Retransmission Timer).";
    "link.receive_delay", Time, -, needs "link.fragment",
        "Time from the end of a frame of the device to its first receive window; the second is 1 s later. Packets to it wait for them (LoRaWAN class A: 1 s; over UDP). Without it, the device always receives.";
    "link.duty_cycle", Percent, "100 %", needs "link.fragment",
        "Share of time that a device with fragments may send; it is silent in proportion after each frame.";
    "link.policer", Rate, -,
        "Rate of a token bucket before each buffer, which drops what exceeds it. Without it, there is none.";
    "link.policer_burst", Bytes(68, 1 << 40), "10 kB",
        "Size of that bucket, full at the beginning: at least `link.mtu`.";
    "link.bit_errors", Number, "0",
        "Bit error rate, as in `1/100000`: a packet of n bytes is lost with probability 1 - (1 - rate)^(8 n), besides other loss.";
    "link.corruption", Percent, "0 %",
        "Share of packets that arrive damaged, so that a checksum discards them; not counted as lost.";
    "link.reordering", Percent, "0 %",
        "Share of packets that arrive later by `link.reordering_delay`, so that later ones overtake them.";
    "link.reordering_delay", Distribution, "100 ms",
        "Additional delay of these packets.";
    "link.duplication", Percent, "0 %",
        "Share of packets that arrive twice; the copy uses no capacity.";
    "link.changes", Text, -,
        "Changes of rate, delay and loss over time, in both directions, in statements separated by `;`: `rate`, `delay`, `loss` or `outage`, then `from`, `to` or `for`, `every` and `over` with times, as in `rate / 10 from 6 s to 60 s` (docs/link-physics.md).";
    "link.trace_end", Word(&["loop", "cut"]), "loop",
        "What follows the end of `link.down.trace` and `link.up.trace`: the trace again, or the direction's own rate, delay and loss.";
    "link.trace_start", Word(&["first", "drawn"]), "first",
        "Where a trace begins: at its first row, or at a time that the seed draws, the same for traces of equal length.";
    "link.delay_of", Word(&["direction", "round-trip"]), "direction",
        "What `link.down.delay` and `link.up.delay` are: the delay of that direction, or of both together, half of it each way.";
    "link.down.rate", Rate, -,
        "Rate towards the constrained side, where the clients are, or with `notifications` the server; must be set.";
    "link.down.delay", Time, "0 s",
        "Propagation delay towards the constrained side.";
    "link.down.buffer", Buffer, -,
        "Overrides `link.buffer` towards the constrained side.";
    "link.down.extra_delay", Distribution, -,
        "Overrides `link.extra_delay` towards the constrained side.";
    "link.down.loss", Percent, -,
        "Overrides `link.loss` towards the constrained side, whatever `link.error_directions` says.";
    "link.down.device_rate", Rate, -, needs "link.up.device_rate",
        "Rate at which the radio of each device receives, besides the shared link, which stands for the cell. Without it, devices receive at the rate of the link.";
    "link.down.repetitions", Whole(1, 2048), "1", needs "link.up.device_rate",
        "Transmissions of each packet towards the constrained side at that rate, by the coverage class of a device (3GPP TS 36.211).";
    "link.down.trace", Text, -,
        "File with a series of rate, delay and loss towards the constrained side, relative to the scenario: CSV or Mahimahi's format (docs/traces.md).";
    "link.down.changes", Text, -,
        "The same towards the constrained side alone, after those of `link.changes`.";
    "link.up.rate", Rate, -,
        "Rate from the constrained side; must be set.";
    "link.up.delay", Time, "0 s",
        "Propagation delay from the constrained side.";
    "link.up.buffer", Buffer, -,
        "Overrides `link.buffer` from the constrained side.";
    "link.up.extra_delay", Distribution, -,
        "Overrides `link.extra_delay` from the constrained side.";
    "link.up.loss", Percent, -,
        "Overrides `link.loss` from the constrained side, whatever `link.error_directions` says.";
    "link.up.device_rate", Rate, -, needs "link.down.device_rate",
        "Rate at which the radio of each device sends, besides the shared link, which stands for the cell. Without it, devices send at the rate of the link.";
    "link.up.repetitions", Whole(1, 128), "1", needs "link.up.device_rate",
        "Transmissions of each packet from the constrained side at that rate, by the coverage class of a device (3GPP TS 36.211).";
    "link.up.trace", Text, -,
        "File with a series of rate, delay and loss from the constrained side, relative to the scenario: CSV or Mahimahi's format (docs/traces.md).";
    "link.up.changes", Text, -,
        "The same from the constrained side alone, after those of `link.changes`.";
    "tcp.profile", Word(&["thesis", "kernel", "rfc", "modern"]), "modern",
        "Whose TCP the algorithms over TCP (`tcp-newreno`, `tcp-cubic`, `tcp-bbr1`, `tcp-bbr3`) are, where no setting says more.";
}
