//! Batching does not change a response. With the real models, rows of many requests in one batch return the same values
//! as each row alone.

use std::collections::BTreeMap;

use futures::{StreamExt, stream};
use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, TestRng, TestRunner},
};
use serde_json::Value;

use crate::support::{
    app::{TestApp, image_file, numbers},
    values::difference,
};

/// The number of mixes that run by default. FACESCAN_MIXES sets another number.
const MIXES: usize = 40;

const PICTURES: [&str; 4] = ["t1.jpg", "obama.jpg", "obama2.jpg", "biden.jpg"];

/// One request of a mix.
#[derive(Clone, Debug)]
struct Sent {
    image: usize,
    embed: bool,
    det_size: u32,
    /// Whether the client disconnects before the response.
    leaves: bool,
    /// Whether the body is not an image.
    broken: bool,
}

fn sent() -> impl Strategy<Value = Sent> {
    (
        0..PICTURES.len(),
        any::<bool>(),
        prop_oneof![3 => Just(320u32), 1 => Just(256)],
        prop::bool::weighted(0.15),
        prop::bool::weighted(0.1),
    )
        .prop_map(|(image, embed, det_size, leaves, broken)| Sent {
            image,
            embed,
            det_size,
            leaves,
            broken,
        })
}

impl Sent {
    fn uri(&self) -> String {
        let operation = if self.embed { "embed" } else { "detect" };
        format!(
            "/{operation}?store=false&max_faces=3&det_size={}",
            self.det_size
        )
    }
}

/// The largest difference between two lists of faces, in pixels or in units of the vector.
fn worst_difference(found: &Value, expected: &Value) -> f32 {
    let (found, expected) = (found.as_array().unwrap(), expected.as_array().unwrap());
    assert_eq!(found.len(), expected.len());
    let mut worst = 0.0f32;
    for (found, expected) in found.iter().zip(expected) {
        for field in ["bbox", "embedding"] {
            if expected[field].is_null() {
                continue;
            }
            worst = worst.max(difference(
                &numbers(&found[field]),
                &numbers(&expected[field]),
            ));
        }
    }
    worst
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batched_requests_return_the_same_answers_as_single_requests() {
    let mixes = std::env::var("FACESCAN_MIXES").map_or(MIXES, |text| text.parse().unwrap());
    let alone = TestApp::with(&[("FACESCAN__RUNTIME__INTRA_THREADS", "1")]).await;
    let mut expected: BTreeMap<(usize, bool, u32), Value> = BTreeMap::new();
    for embed in [false, true] {
        for (image_index, name) in PICTURES.into_iter().enumerate() {
            for det_size in [320, 256] {
                let request = Sent {
                    image: image_index,
                    embed,
                    det_size,
                    leaves: false,
                    broken: false,
                };
                let reply = alone.post(&request.uri(), image_file(name)).await;
                expected.insert(
                    (image_index, embed, det_size),
                    reply.result()["faces"].clone(),
                );
            }
        }
    }
    let together = TestApp::with(&[
        ("FACESCAN__BATCHING__CPU_BATCH_SIZE", "4"),
        ("FACESCAN__BATCHING__MAX_QUEUE_DELAY_MS", "2"),
        ("FACESCAN__ADMISSION__INTERACTIVE_IMAGES", "64"),
        ("FACESCAN__IMAGING__MAX_DECODED", "8"),
    ])
    .await;
    let mut runner = TestRunner::new_with_rng(
        Config::default(),
        TestRng::deterministic_rng(prop::test_runner::RngAlgorithm::ChaCha),
    );
    let mix = prop::collection::vec(sent(), 2..8);
    let mut worst = 0.0f32;
    for _ in 0..mixes {
        let requests = mix.new_tree(&mut runner).unwrap().current();
        let answers: Vec<(Sent, Option<Value>)> = stream::iter(requests)
            .map(|request| {
                let together = &together;
                async move {
                    let body = if request.broken {
                        "not an image".into()
                    } else {
                        image_file(PICTURES[request.image])
                    };
                    let uri = request.uri();
                    let mut answer = Box::pin(together.post(&uri, body));
                    if request.leaves {
                        // Polling starts the request before it is dropped.
                        for _ in 0..3 {
                            if futures::poll!(answer.as_mut()).is_ready() {
                                break;
                            }
                            tokio::task::yield_now().await;
                        }
                        return (request, None);
                    }
                    let reply = answer.await;
                    if request.broken {
                        assert_eq!(reply.code(), "unsupported_media_type");
                        return (request, None);
                    }
                    let faces = reply.result()["faces"].clone();
                    (request, Some(faces))
                }
            })
            .buffer_unordered(8)
            .collect()
            .await;
        for (request, faces) in answers {
            if let Some(faces) = faces {
                let key = (request.image, request.embed, request.det_size);
                worst = worst.max(worst_difference(&faces, &expected[&key]));
            }
        }
    }
    let text = String::from_utf8(together.get("/metrics").await.body.to_vec()).unwrap();
    let batches: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("facescan_batch_rows_bucket"))
        .collect();
    println!("{mixes} mixes, worst difference {worst:e}; {batches:#?}");
    assert!(worst <= 1e-4, "{worst}");
}
