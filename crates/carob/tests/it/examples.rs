//! Runs the examples.

#[path = "../../examples/counter.rs"]
#[allow(dead_code, reason = "its `main` belongs to the program")]
mod counter;

#[path = "../../examples/gateway.rs"]
#[allow(dead_code, reason = "its `main` belongs to the program")]
mod gateway;

use crate::common::{client, in_time, limited, silent_peer, start};
use carob::client::Update;
use carob::{Code, Server};

#[test]
fn counter_example_counts_and_is_observable() {
    in_time(async {
        let resource = counter::Counter::default().resource();
        let builder = Server::builder()
            .bind("127.0.0.1:0")
            .resource("/count", resource);
        let (_server, uri) = start(builder).await;
        let (client, uri) = (client(), format!("{uri}/count"));
        assert_eq!(client.get(&uri).await.unwrap().text(), Some("0"));
        let mut observation = client.get(&uri).observe().await.unwrap();
        assert!(matches!(
            observation.next().await,
            Some(Ok(Update::State(_)))
        ));
        for (body, code) in [
            ("", Code::CHANGED),
            ("5", Code::CHANGED),
            ("five", Code::BAD_REQUEST),
        ] {
            let reply = client.post(&uri).body(body).await.unwrap();
            assert_eq!(reply.code, code, "{body}");
        }
        let mut told = 0;
        while told != 6 {
            let update = observation.next().await.unwrap().unwrap();
            told = update.reply().unwrap().text().unwrap().parse().unwrap();
        }
        assert_eq!(
            client.put(&uri).body("-1").await.unwrap().code,
            Code::CHANGED
        );
        assert_eq!(client.get(&uri).await.unwrap().text(), Some("-1"));
    });
}

#[tokio::test]
async fn gateway_example_polls_downloads_and_observes() {
    limited(Box::pin(async {
        let links = [
            gateway::Link::NbIot,
            gateway::Link::Mesh,
            gateway::Link::Satellite,
        ];
        let (mut servers, mut devices) = (Vec::new(), Vec::new());
        for (number, link) in (1..).zip(links) {
            let server = gateway::device(number).await.unwrap();
            devices.push((server.local_address(), link));
            servers.push(server);
        }
        let (_socket, silent) = silent_peer();
        let all: Vec<_> = devices
            .iter()
            .copied()
            .chain([(silent, links[0])])
            .collect();
        let client = gateway::client(&all).unwrap();
        let (mut readings, unanswered) = gateway::poll(&client, &all).await.unwrap();
        readings.sort_by(f64::total_cmp);
        assert_eq!((readings, unanswered), (vec![1.5, 2.5, 3.5], vec![silent]));

        // Each peer has the controller that belongs to its link.
        let mut gauges = Vec::new();
        for (device, _) in &devices {
            let of_peer = client.gauges(*device).await.unwrap();
            gauges.push(of_peer.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        }
        assert!(gauges[0] != gauges[1] && gauges[1] != gauges[2] && gauges[0] != gauges[2]);

        let bytes = gateway::log_bytes(&client, devices[2].0).await.unwrap();
        assert_eq!(bytes, 200_000);
        let door = devices[0].0;
        let (posted, watched) = tokio::join!(
            client.post(format!("coap://{door}/door")).send(),
            gateway::watch_door(&client, door, 1)
        );
        assert_eq!(posted.unwrap().code, Code::CHANGED);
        watched.unwrap();
    }))
    .await;
}
