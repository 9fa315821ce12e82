// Experiments to begin with: the page's own question, and headline experiments of the studies.

export const PRESETS = [
  {
    id: "own", name: "Your own link",
    about: "Choose the link nearest to yours and change its numbers. Runs are paired: each seed has the same losses for all controllers.",
    state: {},
  },
  {
    id: "loss", name: "Pesola 2020: a download with 18 % loss",
    about: "400 blocks over 30 kbit/s with the error level high. See CoCoA finish long before default CoAP: its timers follow the measured round trip.",
    state: { scenario: "thesis/long", cell: "long-1c-high-2500", cc: "default,cocoa-001,carob", seeds: 40 },
  },
  {
    id: "tcp", name: "Pesola 2020: CoAP over UDP or TCP",
    about: "The same download without loss. See TCP New Reno take an eighth of the time: it keeps the link full, and block-wise transfer has one block in flight.",
    state: { scenario: "thesis/long", cell: "long-1c-none-2500", cc: "default,cocoa-001,tcp-newreno,tcp-bbr1", seeds: 20 },
  },
  {
    id: "clients", name: "Lee et al. 2016: 100 clients, one slow link",
    about: "100 clients on 10 kbit/s. See default CoAP spend the link on spurious retransmissions, and controllers that measure answer more requests a second.",
    state: { scenario: "retrycount/clients", cell: "clients-100", cc: "default,rtt-count,cocoa-03,carob", seeds: 20, metric: "throughput_rps" },
  },
  {
    id: "observers", name: "Betzler et al. 2016: notifications over GPRS",
    about: "A server notifies 100 observers at once. See bursts overflow the buffer under default CoAP, and drawn intervals spread them.",
    state: { scenario: "nonobserve/gprs", cell: "gprs-60s-100S5n", cc: "default,observe-static,cocoa-002,carob", seeds: 10, metric: "pdr" },
  },
  {
    id: "mesh", name: "Betzler et al. 2015: a lossy grid of IEEE 802.15.4",
    about: "36 nodes send to one sink over several hops. See where the frames queue, and how often a node of the far corner sends again.",
    state: { scenario: "cocoaplus/constant", cell: "constant-6x6-lossy-5kbit", cc: "default,cocoa-v0,cocoa-plus", seeds: 10, metric: "pdr" },
  },
  {
    id: "rpl", name: "Vallati et al. 2020: RPL under load",
    about: "22 nodes of a sparse testbed. See retransmissions raise the ETX of links, and nodes change their parents because of it.",
    state: { scenario: "rpl/pint-rpl", cell: "pint-rpl-1s", cc: "default,cocoa-004-text", seeds: 10, metric: "pdr" },
  },
];
