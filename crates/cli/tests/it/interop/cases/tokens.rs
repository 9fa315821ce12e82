//! Extended tokens with servers that do not implement them (RFC 8974 2.2.2).

use std::time::Duration;

use carob::Config;
use carob_proto::codec::Type;

use crate::installed::Peer;
use crate::interop::bench::Bench;
use crate::interop::clients::Client;
use crate::interop::library;
use crate::interop::path::Faults;

const LIMIT: Duration = Duration::from_secs(60);
const LONG: u16 = 20;

/// A request with an extended token is rejected or dropped, and repeated with a short one, like all later ones.
pub(crate) fn long(bench: &Bench) {
    bench.interpose(Faults::default());
    let uri = format!(
        "coap://127.0.0.1:{}/{}",
        bench.path().port(),
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
    library::block_on(exchanges);
    let seen = bench.path().to_server();
    let requests = seen.requests();
    let mut lengths: Vec<usize> = requests
        .values()
        .map(|copies| copies[0].token.len())
        .collect();
    lengths.sort_unstable();
    assert_eq!(
        lengths,
        [8, 8, 8, LONG.into()],
        "the peer accepts long tokens; the documentation says that it does not"
    );
    // RFC 7252 4.2 requires a Reset for unreadable messages; only libcoap sends it.
    let resets = usize::from(bench.server.whose == Client::Of(Peer::Libcoap));
    assert_eq!(bench.path().to_client().count(Type::Reset), resets);
}
