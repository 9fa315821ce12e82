//! Usage errors: exit code 2, and a message with the accepted values and the remedy.

use crate::process::Scratch;

/// Command lines, and indented below them what stderr has. The last of a group may have the exit code only.
const TABLE: &str = r#"
get coap:/localhost
    did you mean coap://localhost?
get localhost/hello
    did you mean coap://localhost/hello?
get coap://[::1]/a coap://[::1]/b -o file
    -o takes the body of one URI
get coap://[::1]/ --cc cocoa-3
    --cc: unknown controller "cocoa-3"
    did you mean "cocoa-03"?
    hint: `carob cc list` explains all
get coap://[::1]/ --option Hop-Limt=1
    unknown option "Hop-Limt"; did you mean "Hop-Limit"
get coap://[::1]/ --option Max-Age=60
    Max-Age is not allowed in this message
get coap://127.0.0.1 --accept jsno
    did you mean "json"
    senml+cbor
get coap://[::1]/ --token-length 1025
    0 to 1024
get coap://[::1]/ --nstart 0
    --nstart
get coap://[::1]/ --max-retransmit 31
    --max-retransmit
get coap://[::1]/ --ack-timeout 5
    --ack-timeout
get coap://[::1] --count-option 65000
    such as 65052
get coaps+tcp://h/ --proxy coap://192.0.2.1
    not secure
    hint:
get coap://localhost/ --psk-identity me
put coap+tcp://localhost/ x --psk-identity me
observe coap://localhost/ --psk-identity me
ping coap://localhost --psk-identity me
discover localhost --psk-identity me
    --psk-identity needs a coaps:// URI
observe coap://[::1]/ --count 0
lab run --seeds 0
    expected a whole number of at least 1
get coap://[::1]/ --no-response=3xx

serve --bind 127.0.0.1:70000
serve --tcp 127.0.0.1:70000
serve --dtls 127.0.0.1:70000
proxy --bind 127.0.0.1:70000
proxy --tcp 127.0.0.1:70000
proxy --dtls 127.0.0.1:70000
    "70000" is not a port (0 to 65535)
serve --bind 127.0.0.1:0 --tls 127.0.0.1:0
    --cert
serve --bind 127.0.0.1:0 --dtls 127.0.0.1:0
    needs pre-shared keys, a certificate, or both
    hint: give --psk-file FILE, or --cert FILE and --key FILE
serve --health health
    such as /health
serve --aggregate=everywhere
    192.0.2.0/24
serve --limit observer=1
proxy --route /=coap://localhost --limit observer=1
    unknown limit "observer"; did you mean "observers"
serve --limit zzzzzzzzzzzzzzz=1
proxy --route /=coap://localhost --limit zzzzzzzzzzzzzzz=1
    `carob serve --limits` lists all
serve --limit observers=10MiB
proxy --route /=coap://localhost --limit observers=10MiB
    observers is not in bytes
serve --limit request_rate=1000001
proxy --route /=coap://localhost --limit request_rate=1000001
    expected at most 1000000
serve --limit observers=many
proxy --route /=coap://localhost --limit observers=many
    observers is a number
serve --limit observers
proxy --route /=coap://localhost --limit observers
    expected NAME=VALUE
serve --amplification-limit 127.0.0.0/40=on

proxy --bind 127.0.0.1:0
    --allow
proxy --route a=coap://h
    PATH=URI
proxy --route /a=http://h/
    HTTP is not supported
proxy --allow h/24
    ADDRESS/BITS
proxy --origin-cc h=fasor
    ADDRESS:PORT=NAME
proxy --hop-limit 0
    1..=255
proxy --allow h --origin-cc cocoa-3
    did you mean "cocoa-03"

bench coap://127.0.0.1/ --mode upload
bench coap://127.0.0.1/ --bytes 5
bench coap://127.0.0.1/ --ports 5 --outstanding 4
bench coap://127.0.0.1/ --cc cocoa-3
bench coap+tcp://127.0.0.1/
bench coaps://127.0.0.1/ --psk-identity nobody
bench coap://127.0.0.1/ --server-pid 4294967295
    hint:

cc show cocoa-3
    unknown controller "cocoa-3"
    did you mean "cocoa-03"
cc show nothing-like-it-at-all
    hint: `carob cc list` explains all
cc trace
cc trace --demo script.txt

lab run thesis/lon
lab run long
    did you mean "thesis/long"?
lab run thesis/long-1c-none-2500 --algorithm cocoa-3
    --algorithm cocoa-3: unknown controller "cocoa-3"; did you mean "cocoa-03"?
lab run thesis/long-1c-none-2500 --set 'rto_mx=3 s'
    did you mean "transmission.rto_max"?
lab run thesis/long-1c-none-2500 --set cc.k_week=1 --algorithm cocoa-03
    cocoa-03 has no constant "k_week"
lab run zzz
    unknown scenario "zzz"
lab run thesis
    "thesis" is a study, not a scenario
    thesis/long, thesis/nstart-sweep
lab run thesis/zzz*
    unknown scenario "thesis/zzz*"
    the scenarios of thesis are thesis/exchange-tcp
lab run thesis/long-1c-none-2500 --set 'donw.rate=3 kbit/s'
    unknown key "donw.rate"; did you mean "down.rate"?
    `carob lab keys`
lab run thesis/long-1c-none-2500 --set down.rate=30
    link.down.rate = "30": expected a rate with its unit
    --set down.rate=30
lab run thesis/long-1c-none-2500 --set 'rto_max=3 furlongs'
    expected a time with its unit (us, ms, s, min, h)
    --set rto_max=3 furlongs
lab run thesis/long-1c-none-2500 --set error=severe
    expected none or low or medium or high
    --set error=severe
lab run thesis/long-1c-none-2500 --set down.rate
    write key=value
    --set down.rate
lab run thesis/long-1c-low-2500 --seed 1 --pcap all.pcapng
    a capture is of one run
lab run thesis/long-1c-none-28200 --set tcp.sakc=true
    did you mean "tcp.sack"?
lab run thesis/long-1c-none-2500 --svg lines --seeds 2 --no-report
    differ in a number
lab run thesis/long-9c-*
    unknown cell "long-9c-*"
lab run thesis/long-1c-*-2500 -a kokoa-*
    unknown controller "kokoa-*"
lab run carob/default --link thread
    thread is a mesh
lab run carob/default --link 5g
    unknown link
    gprs
lab run nonobserve/umts-1s-25S3n --set 'message=16 B' --set token_bytes=8
    workload.message
    at least 22 bytes
lab run retrycount/clients-10 --algorithm tcp-newreno
    over TCP
    server.service out
lab run retrycount/clients-10 --set receive_queue=0
    from 1 to 65536
lab run retrycount/clients-10 --set server.copies=maybe
    cost or free
lab run retrycount/clients-10 --set after_failure=again
    stop or next
lab run retrycount/clients-10 --set 'server.servise=1 s'
    server.service
lab show thesis/long-1c-*-2500
    a pattern, where one cell is meant
lab show thesis/short --topology
    no wireless network
lab show cocoaplus/event --set 'buffer=2500 B'
    buffer
lab list --color blue
    auto, always, never
lab calibrate thesis
    `carob-studies calibrate`
    `cargo install --path crates/studies`
lab claims thesis
    `carob-studies claims`
    `cargo install --path crates/studies`
lab judge thesis
    `carob-studies judge`
    `cargo install --path crates/studies`
lab reproduce thesis
    `carob-studies reproduce`
    `cargo install --path crates/studies`
lab run thesis/long-1c-none-2500 --seeds 2 --seed 1
lab run thesis/long-1c-none-2500 --threads 0
lab run thesis/long-1c-none-2500 --json --csv
lab run thesis/long-1c-none-2500 --seeds 99999999999
lab run thesis/long-1c-none-28200 --pcap all.pcapng

lab compare --link 5g
    unknown link "5g"
    nb-iot, nb-iot-connected
    not validated are lte-m
lab compare --traffic video
    unknown traffic "video"
    firmware, command
lab compare --down 60kbit/s
    up is missing
    both rates
lab compare --down 60 --up 1kbit/s
    down is "60"
    kbit/s
lab compare --weight speed=3
    time, tail, undelivered
lab compare --weight time=-3
    expected a name and percent
lab compare --link bad.toml
    bad.toml
    unknown key speed
    loss_burst
lab compare --clients 5000
    --clients 5000 is more than 1000
    such as --cell 200
lab compare --cell 2000
    2000 is not in 1..=1000
lab compare --link thread --loss 3%
    thread is a mesh, which has no loss
    a link with rates
lab compare --loss 3
    loss is "3"
    2 %
"#;

#[test]
fn unknown_controller_has_at_most_three_suggestions() {
    let said = Scratch::new().usage_error("get coap://[::1]/ --cc cocoa-3");
    assert!(said.matches('"').count() <= 8, "{said}");
}

#[test]
fn usage_errors_name_accepted_values_and_remedies() {
    let folder = Scratch::new();
    folder.with("bad.toml", "[link]\nspeed = 3\n");
    for group in TABLE.split("\n\n") {
        let mut refused: Vec<(&str, String)> = Vec::new();
        let mut has_parts = false;
        for line in group.trim_matches('\n').lines() {
            if let Some(part) = line.strip_prefix("    ") {
                has_parts = true;
                for (command, stderr) in &refused {
                    assert!(stderr.contains(part), "{command}: no {part:?} in {stderr}");
                }
                continue;
            }
            if core::mem::take(&mut has_parts) {
                refused.clear();
            }
            let ran = folder.carob(line);
            assert_eq!((ran.code, ran.stdout()), (Some(2), ""), "{line}: {ran:?}");
            refused.push((line, ran.stderr));
        }
    }
}
