//! Parses a datagram and, if it is a message, writes it again.

#![no_main]

use std::net::{Ipv4Addr, SocketAddr};

use carob_proto::codec::{MessageView, OptionNumber, Options, Scheme, Uri, Writer, parse_header};
use libfuzzer_sys::fuzz_target;

fn start<'b>(view: &MessageView<'_>, buffer: &'b mut [u8]) -> Writer<'b> {
    Writer::new(
        buffer,
        view.kind(),
        view.code(),
        view.message_id(),
        &view.token(),
    )
    .expect("buffer is as long as the message")
}

fuzz_target!(|datagram: &[u8]| {
    let view = match MessageView::parse(datagram) {
        Ok(view) => view,
        Err(error) => {
            assert!(usize::from(error.offset) <= datagram.len());
            let _ = parse_header(datagram);
            return;
        }
    };
    let mut buffer = vec![0; datagram.len()];
    let mut writer = start(&view, &mut buffer);
    for option in view.options() {
        let _ = (option.recognized(), option.uint());
        writer.option(option.number, option.value).expect("fits");
    }
    writer.payload(view.payload()).expect("fits");
    assert_eq!(writer.finish(), datagram.len());
    assert_eq!(buffer, datagram);

    let _ = view.block_option(OptionNumber::BLOCK1);
    let Ok(options) = Options::from_view(&view) else {
        return;
    };
    buffer.fill(0);
    let mut writer = start(&view, &mut buffer);
    options.encode(&mut writer).expect("fits");
    writer.payload(view.payload()).expect("fits");
    assert_eq!(writer.finish(), datagram.len());
    assert_eq!(buffer, datagram);

    // The same list, built in the opposite order of numbers.
    let mut rebuilt = Options::new();
    let mut numbers: Vec<_> = options.iter().map(|option| option.number).collect();
    numbers.dedup();
    for number in numbers.into_iter().rev() {
        for value in options.values(number) {
            rebuilt.push(number, value).expect("fits");
        }
    }
    assert_eq!(rebuilt, options);

    let destination = SocketAddr::from((Ipv4Addr::LOCALHOST, 5683));
    if let Ok(uri) = Uri::from_options(Scheme::Coap, &options, destination) {
        assert_eq!(Uri::parse(&uri.to_string()).as_ref(), Ok(&uri));
    }
});
