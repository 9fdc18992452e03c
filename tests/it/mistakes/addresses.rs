//! Mistakes with addresses and lists.

use insta::assert_json_snapshot;

use super::Mistakes;

#[tokio::test]
async fn mistakes_with_addresses_and_lists() {
    let mut told = Mistakes::with(&[]).await;
    for uri in [
        "/detect",
        "/detect/",
        "/detct",
        "/health",
        "/v1/embed",
        "/nowhere/at/all",
        "/images/123",
        "/images/0192f0c8-0000-7000-8000-000000000000",
        "/collections/people",
        "/images?limit=5000",
        "/images?page=2",
        "/images?after=yesterday&limit=ten",
        "/batches?state=finished",
    ] {
        told.get(&format!("GET {uri}"), uri).await;
    }
    assert_json_snapshot!(told.told);
}
