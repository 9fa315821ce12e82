//! The examples, run.

#[path = "../../examples/counter.rs"]
#[allow(dead_code, reason = "its `main` belongs to the program")]
mod counter;

use crate::common::{client, limited, start};
use carob::client::Update;
use carob::{Code, Server};

#[tokio::test]
async fn the_counter_counts_refuses_and_is_observed() {
    limited(async {
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
    })
    .await;
}
