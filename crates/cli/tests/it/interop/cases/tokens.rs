//! Tokens of more than 8 bytes, with servers that know nothing of them (RFC 8974 2.2.2).

use std::time::Duration;

use carob::Config;
use carob_proto::codec::MessageView;

use crate::installed::Peer;
use crate::interop::bench::Bench;
use crate::interop::clients::Client;
use crate::interop::proxy::Faults;

const LIMIT: Duration = Duration::from_secs(60);
const LONG: u16 = 20;

/// A request with a long token is rejected, or dropped, and goes again with a short one; all later ones
/// have such.
pub(crate) fn long(bench: &Bench) {
    bench.interpose(Faults::default(), Faults::default());
    let uri = format!(
        "coap://127.0.0.1:{}/{}",
        bench.proxy().port(),
        bench.server.paths.hello
    );
    let exchanges = async {
        let settings = Config::new().token_length(LONG);
        let client = carob::Client::builder().config(settings).open();
        let client = client.expect("a socket");
        for _ in 0..3 {
            let reply = client.get(&*uri).timeout(LIMIT).send().await;
            let reply = reply.unwrap_or_else(|error| panic!("{uri}: {error}"));
            assert!(reply.code.is_success(), "{}", reply.code);
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.expect("a runtime").block_on(exchanges);
    let seen = bench.proxy().seen_to_server();
    let length = |copies: &Vec<Vec<u8>>| {
        let message = MessageView::parse(&copies[0]).expect("a message");
        message.token().len()
    };
    let mut lengths: Vec<usize> = seen.requests.values().map(length).collect();
    lengths.sort_unstable();
    assert_eq!(
        lengths,
        [8, 8, 8, LONG.into()],
        "it takes long tokens, and the document says that it does not"
    );
    // Who drops what it cannot read departs from RFC 7252 4.2.
    let resets = u32::from(bench.server.whose == Client::Of(Peer::Libcoap));
    assert_eq!(bench.proxy().seen_to_client().resets, resets);
}
