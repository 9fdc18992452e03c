//! A Qdrant server for one test: that of QDRANT_URL, or one in the test process that compares all vectors.

mod memory;
mod services;

use std::future::Future;

use qdrant_client::{
    Payload, Qdrant,
    qdrant::{
        Condition, DeletePointsBuilder, Filter, PointId, PointStruct, PointsIdsList,
        ScrollPointsBuilder, SetPayloadPointsBuilder, UpsertPointsBuilder, Value,
        point_id::PointIdOptions,
    },
};
use uuid::Uuid;

/// The key of the server in the test process.
const KEY: &str = "key of the tests";

/// A server, and a prefix for the collections of one test.
#[derive(Clone)]
pub struct QdrantServer {
    pub url: String,
    pub key: String,
    pub prefix: String,
    pub client: Qdrant,
}

/// Runs a test with a server, and deletes the collections of the test, also if it fails.
pub async fn on_qdrant<F>(test: impl FnOnce(QdrantServer) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let url = std::env::var("QDRANT_URL");
    let (url, key) = match url {
        Ok(url) => (url, std::env::var("QDRANT_API_KEY").unwrap_or_default()),
        Err(_) => (services::serve(KEY).await, KEY.to_owned()),
    };
    let client = Qdrant::from_url(&url)
        .api_key(key.as_str())
        .skip_compatibility_check()
        .build()
        .unwrap();
    let server = QdrantServer {
        prefix: format!("test-{}", Uuid::now_v7().simple()),
        url,
        key,
        client,
    };
    let outcome = tokio::spawn(test(server.clone())).await;
    server.remove_collections().await;
    if let Err(error) = outcome {
        std::panic::resume_unwind(error.into_panic());
    }
}

/// Returns whether the tests use the server of QDRANT_URL.
pub fn is_external() -> bool {
    std::env::var_os("QDRANT_URL").is_some()
}

impl QdrantServer {
    /// Returns the settings of an application that uses this server through an address.
    pub fn settings_at<'a>(&'a self, url: &'a str) -> Vec<(&'a str, &'a str)> {
        vec![
            ("FACESCAN__RECOGNITION__INDEX", "qdrant"),
            ("FACESCAN__QDRANT__URL", url),
            ("FACESCAN__QDRANT__API_KEY", &self.key),
            ("FACESCAN__QDRANT__PREFIX", &self.prefix),
        ]
    }

    /// Returns the settings of an application that uses this server.
    pub fn settings(&self) -> Vec<(&str, &str)> {
        self.settings_at(&self.url)
    }

    /// Returns the names of the test's collections.
    pub async fn names(&self) -> Vec<String> {
        let listed = self.client.list_collections().await.unwrap();
        let names = listed.collections.into_iter().map(|one| one.name);
        names
            .filter(|name| name.starts_with(&self.prefix))
            .collect()
    }

    /// Removes everything that the test has stored.
    pub async fn remove_collections(&self) {
        for name in self.names().await {
            self.client.delete_collection(name).await.unwrap();
        }
    }

    /// Returns the rows that the server has of a collection, in order.
    pub async fn rows(&self, collection: Uuid) -> Vec<u64> {
        let mut rows = Vec::new();
        for name in self.names().await {
            let request = ScrollPointsBuilder::new(name)
                .filter(of(&collection.to_string()))
                .limit(10_000);
            let page = self.client.scroll(request).await.unwrap();
            rows.extend(page.result.into_iter().filter_map(|point| number(point.id)));
        }
        rows.sort_unstable();
        rows
    }

    /// Returns the position that the server has of a collection.
    pub async fn position(&self, collection: Uuid) -> Option<i64> {
        for name in self.names().await {
            let id = Condition::has_id([collection.to_string()]);
            let request = ScrollPointsBuilder::new(name)
                .filter(Filter::must([id]))
                .with_payload(true);
            let page = self.client.scroll(request).await.unwrap();
            if let Some(point) = page.result.first() {
                return point.payload.get("position").and_then(Value::as_integer);
            }
        }
        None
    }

    /// Changes the position behind the back of the application.
    pub async fn set_position(&self, collection: Uuid, position: i64) {
        let mut payload = Payload::new();
        payload.insert("position", position);
        let ids = vec![PointId::from(collection.to_string())];
        let request = SetPayloadPointsBuilder::new(self.only_name().await, payload)
            .points_selector(PointsIdsList { ids })
            .wait(true);
        self.client.set_payload(request).await.unwrap();
    }

    /// Writes a row behind the back of the application.
    pub async fn put(&self, collection: Uuid, row: u64, vector: Vec<f32>) {
        let mut payload = Payload::new();
        payload.insert("collection", collection.to_string());
        let point = PointStruct::new(row, vector, payload);
        let request = UpsertPointsBuilder::new(self.only_name().await, vec![point]).wait(true);
        self.client.upsert_points(request).await.unwrap();
    }

    /// Removes points behind the back of the application: all of them, or rows.
    pub async fn remove(&self, rows: Option<&[u64]>) {
        let name = self.only_name().await;
        let request = DeletePointsBuilder::new(name).wait(true);
        let request = match rows {
            Some(rows) => {
                let ids = rows.iter().copied().map(PointId::from).collect();
                request.points(PointsIdsList { ids })
            }
            None => request.points(Filter::default()),
        };
        self.client.delete_points(request).await.unwrap();
    }

    async fn only_name(&self) -> String {
        let names = self.names().await;
        assert_eq!(names.len(), 1, "{names:?}");
        names[0].clone()
    }
}

fn of(collection: &str) -> Filter {
    Filter::must([Condition::matches("collection", collection.to_owned())])
}

fn number(id: Option<PointId>) -> Option<u64> {
    match id?.point_id_options? {
        PointIdOptions::Num(number) => Some(number),
        PointIdOptions::Uuid(_) => None,
    }
}
