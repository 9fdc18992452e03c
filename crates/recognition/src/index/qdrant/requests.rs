//! The requests to a Qdrant server.

use facescan_store::IndexRow;
use qdrant_client::{
    Payload,
    qdrant::{
        Condition, CountPointsBuilder, CreateCollectionBuilder, CreateFieldIndexCollectionBuilder,
        DeletePointsBuilder, Distance, FacetCountsBuilder, FieldType, Filter, GetPointsBuilder,
        HnswConfigDiffBuilder, KeywordIndexParamsBuilder, OptimizersConfigDiffBuilder, PointId,
        PointStruct, PointsIdsList, QuantizationSearchParamsBuilder, QueryBatchPointsBuilder,
        QueryPointsBuilder, ScalarQuantizationBuilder, ScrollPointsBuilder, SearchParamsBuilder,
        SetPayloadPointsBuilder, UpsertPointsBuilder, VectorInput, VectorParamsBuilder,
    },
};
use uuid::Uuid;

use super::super::IndexQuery;

/// The payload field with the collection of a row.
pub(super) const COLLECTION: &str = "collection";

/// The value of [`COLLECTION`] of the points with positions. No collection has this id, so no search of rows finds them.
pub(super) const POSITIONS: &str = "positions";

/// The payload field with a position.
pub(super) const POSITION: &str = "position";

/// The links of a vector in the graph of its collection.
const LINKS: u64 = 16;

/// The share of removed points from which the server writes a segment again without them.
const DELETED_THRESHOLD: f64 = 0.01;

/// The points from which a segment is written again. The server accepts no fewer.
const VACUUM_POINTS: u64 = 100;

/// The fewest rows that a search keeps while it follows the graph. More rows take longer and miss fewer.
const SEARCH_WIDTH: u64 = 256;

/// How many times the rows that are asked for are compared again in 32 bits.
const OVERSAMPLING: f64 = 2.0;

/// Creates a Qdrant collection. It has a graph for each of our collections, and none over all of them.
pub(super) fn create(name: &str, dim: u64) -> CreateCollectionBuilder {
    let vectors = VectorParamsBuilder::new(dim, Distance::Dot).on_disk(true);
    let graph = HnswConfigDiffBuilder::default().m(0).payload_m(LINKS);
    let optimizers = OptimizersConfigDiffBuilder::default()
        .deleted_threshold(DELETED_THRESHOLD)
        .vacuum_min_vector_number(VACUUM_POINTS);
    CreateCollectionBuilder::new(name)
        .vectors_config(vectors)
        .quantization_config(ScalarQuantizationBuilder::default().always_ram(true))
        .hnsw_config(graph)
        .optimizers_config(optimizers)
}

pub(super) fn index_collections(name: &str) -> CreateFieldIndexCollectionBuilder {
    CreateFieldIndexCollectionBuilder::new(name, COLLECTION, FieldType::Keyword)
        .field_index_params(KeywordIndexParamsBuilder::default().is_tenant(true))
        .wait(true)
}

pub(super) fn point(collection: Uuid, row: IndexRow) -> PointStruct {
    let mut payload = Payload::new();
    payload.insert(COLLECTION, collection.to_string());
    PointStruct::new(row.row, row.vector, payload)
}

/// A point with the position of a collection. Its vector has no meaning, but every point has one.
pub(super) fn position(collection: Uuid, (position, dim): (u64, u64)) -> PointStruct {
    let mut vector = vec![0.0_f32; usize::try_from(dim).unwrap_or_default()];
    if let Some(first) = vector.first_mut() {
        *first = 1.0;
    }
    let mut payload = Payload::new();
    payload.insert(COLLECTION, POSITIONS);
    payload.insert(POSITION, position.cast_signed());
    PointStruct::new(collection.to_string(), vector, payload)
}

pub(super) fn upsert(name: &str, points: Vec<PointStruct>) -> UpsertPointsBuilder {
    UpsertPointsBuilder::new(name, points).wait(true)
}

pub(super) fn delete(name: &str, rows: &[u64]) -> DeletePointsBuilder {
    let ids = rows.iter().copied().map(PointId::from).collect();
    DeletePointsBuilder::new(name)
        .points(PointsIdsList { ids })
        .wait(true)
}

pub(super) fn delete_rows(name: &str, collection: Uuid) -> DeletePointsBuilder {
    DeletePointsBuilder::new(name)
        .points(rows_of(&collection.to_string()))
        .wait(true)
}

pub(super) fn delete_position(name: &str, collection: Uuid) -> DeletePointsBuilder {
    DeletePointsBuilder::new(name)
        .points(position_of(collection))
        .wait(true)
}

pub(super) fn get_position(name: &str, collection: Uuid) -> GetPointsBuilder {
    let ids = vec![PointId::from(collection.to_string())];
    GetPointsBuilder::new(name, ids).with_payload(true)
}

/// Changes a position by a filter, because a change by the id fails if there is no such point.
pub(super) fn move_position(
    name: &str,
    collection: Uuid,
    position: u64,
) -> SetPayloadPointsBuilder {
    let mut payload = Payload::new();
    payload.insert(POSITION, position.cast_signed());
    SetPayloadPointsBuilder::new(name, payload)
        .points_selector(position_of(collection))
        .wait(true)
}

/// Lists the points of a collection, or of [`POSITIONS`], in the order of their ids.
pub(super) fn scroll(
    name: &str,
    collection: &str,
    (offset, limit): (Option<PointId>, u32),
) -> ScrollPointsBuilder {
    let request = ScrollPointsBuilder::new(name)
        .filter(rows_of(collection))
        .limit(limit)
        .with_payload(collection == POSITIONS)
        .with_vectors(false);
    match offset {
        Some(offset) => request.offset(offset),
        None => request,
    }
}

pub(super) fn facet(name: &str, limit: u64) -> FacetCountsBuilder {
    FacetCountsBuilder::new(name, COLLECTION)
        .limit(limit)
        .exact(true)
}

pub(super) fn count(name: &str, collection: Uuid) -> CountPointsBuilder {
    CountPointsBuilder::new(name)
        .filter(rows_of(&collection.to_string()))
        .exact(true)
}

/// Searches for each vector, and reads the position, in one request.
pub(super) fn search(name: &str, query: &IndexQuery<'_>) -> QueryBatchPointsBuilder {
    let collection = query.collection.collection_id;
    let rows = query.rows as u64;
    let rescoring = QuantizationSearchParamsBuilder::default()
        .rescore(true)
        .oversampling(OVERSAMPLING);
    let params = SearchParamsBuilder::default()
        .hnsw_ef(SEARCH_WIDTH.max(rows))
        .exact(query.must_be_exact)
        .quantization(rescoring);
    let search = |vector: &Vec<f32>| {
        QueryPointsBuilder::new(name)
            .query(VectorInput::new_dense(vector.clone()))
            .filter(rows_of(&collection.to_string()))
            .params(params.clone())
            .limit(rows)
            .with_payload(false)
            .build()
    };
    let position = QueryPointsBuilder::new(name)
        .filter(position_of(collection))
        .limit(1)
        .with_payload(true);
    let queries = query.vectors.iter().map(search).chain([position.build()]);
    QueryBatchPointsBuilder::new(name, queries.collect::<Vec<_>>())
}

fn rows_of(collection: &str) -> Filter {
    Filter::must([Condition::matches(COLLECTION, collection.to_owned())])
}

fn position_of(collection: Uuid) -> Filter {
    Filter::must([Condition::has_id([collection.to_string()])])
}
