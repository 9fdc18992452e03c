//! The gRPC services of the Qdrant server in the test process: the calls that the index and its tests make.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use ::qdrant_client::qdrant::{
    collections_server::{Collections, CollectionsServer},
    points_server::{Points, PointsServer},
    vectors_config, *,
};
use async_trait::async_trait;
use tokio::net::TcpListener;
use tonic::{
    Request, Response, Status,
    service::InterceptorLayer,
    transport::{Server, server::TcpIncoming},
};

use super::memory::{Collection, Id};

type Answer<T> = Result<Response<T>, Status>;

/// Serves an empty server with a key on a free port, and returns its URL.
pub async fn serve(key: &'static str) -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let services = Services::default();
    let check = move |request: Request<()>| {
        let sent = request.metadata().get("api-key");
        match sent.is_some_and(|sent| sent == key) {
            true => Ok(request),
            false => Err(Status::unauthenticated("the key is wrong")),
        }
    };
    let server = Server::builder()
        .layer(InterceptorLayer::new(check))
        .add_service(PointsServer::new(services.clone()))
        .add_service(CollectionsServer::new(services));
    tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    url
}

/// The services. Clones share the collections.
#[derive(Clone, Default)]
struct Services {
    collections: Arc<Mutex<BTreeMap<String, Collection>>>,
}

impl Services {
    /// Reads or changes a collection.
    fn with<T>(
        &self,
        name: &str,
        run: impl FnOnce(&mut Collection) -> Result<T, Status>,
    ) -> Result<T, Status> {
        let mut collections = self.collections.lock().unwrap();
        let Some(collection) = collections.get_mut(name) else {
            let missing = format!("Not found: Collection `{name}` doesn't exist!");
            return Err(Status::not_found(missing));
        };
        run(collection)
    }

    /// Changes a collection. The change is complete when this returns, so the caller must wait for it.
    fn change(
        &self,
        (name, wait): (&str, Option<bool>),
        run: impl FnOnce(&mut Collection) -> Result<(), Status>,
    ) -> Answer<PointsOperationResponse> {
        if wait != Some(true) {
            return Err(Status::failed_precondition("the caller does not wait"));
        }
        self.with(name, run)?;
        let status = UpdateStatus::Completed.into();
        let result = UpdateResult {
            status,
            ..UpdateResult::default()
        };
        Ok(Response::new(PointsOperationResponse {
            result: Some(result),
            ..PointsOperationResponse::default()
        }))
    }
}

/// Implements a service. The calls of the list are answered with an error.
macro_rules! service {
    ($service:ident { $($written:tt)* } others: $($name:ident($request:ty) -> $answer:ty;)*) => {
        #[async_trait]
        impl $service for Services {
            $($written)*
            $(async fn $name(&self, _: Request<$request>) -> Answer<$answer> {
                Err(Status::unimplemented(stringify!($name)))
            })*
        }
    };
}

service! {
    Collections {
        async fn collection_exists(&self, request: Request<CollectionExistsRequest>) -> Answer<CollectionExistsResponse> {
            let name = request.into_inner().collection_name;
            let exists = self.collections.lock().unwrap().contains_key(&name);
            let result = Some(CollectionExists { exists });
            Ok(Response::new(CollectionExistsResponse { result, time: 0.0 }))
        }

        async fn list(&self, _: Request<ListCollectionsRequest>) -> Answer<ListCollectionsResponse> {
            let names: Vec<String> = self.collections.lock().unwrap().keys().cloned().collect();
            let collections = names.into_iter().map(|name| CollectionDescription { name });
            let collections = collections.collect();
            Ok(Response::new(ListCollectionsResponse { collections, time: 0.0 }))
        }

        async fn create(&self, request: Request<CreateCollection>) -> Answer<CollectionOperationResponse> {
            let request = request.into_inner();
            let vectors = request.vectors_config.and_then(|vectors| vectors.config);
            let Some(vectors_config::Config::Params(vectors)) = vectors else {
                return Err(Status::unimplemented("named vectors"));
            };
            if vectors.distance() != Distance::Dot || request.quantization_config.is_none() {
                return Err(Status::invalid_argument("the vectors are compared in another way"));
            }
            let vacuum = request.optimizers_config.and_then(|config| config.deleted_threshold);
            if vacuum.is_none_or(|threshold| threshold > 0.01) {
                return Err(Status::invalid_argument("deleted points are kept for long"));
            }
            let mut collections = self.collections.lock().unwrap();
            if collections.contains_key(&request.collection_name) {
                return Err(Status::already_exists("the collection exists"));
            }
            let collection = Collection { dim: vectors.size, ..Collection::default() };
            collections.insert(request.collection_name, collection);
            Ok(Response::new(CollectionOperationResponse { result: true, time: 0.0 }))
        }

        async fn delete(&self, request: Request<DeleteCollection>) -> Answer<CollectionOperationResponse> {
            let name = request.into_inner().collection_name;
            let result = self.collections.lock().unwrap().remove(&name).is_some();
            Ok(Response::new(CollectionOperationResponse { result, time: 0.0 }))
        }
    }
    others:
    get(GetCollectionInfoRequest) -> GetCollectionInfoResponse;
    update(UpdateCollection) -> CollectionOperationResponse;
    update_aliases(ChangeAliases) -> CollectionOperationResponse;
    list_collection_aliases(ListCollectionAliasesRequest) -> ListAliasesResponse;
    list_aliases(ListAliasesRequest) -> ListAliasesResponse;
    collection_cluster_info(CollectionClusterInfoRequest) -> CollectionClusterInfoResponse;
    update_collection_cluster_setup(UpdateCollectionClusterSetupRequest) -> UpdateCollectionClusterSetupResponse;
    create_shard_key(CreateShardKeyRequest) -> CreateShardKeyResponse;
    delete_shard_key(DeleteShardKeyRequest) -> DeleteShardKeyResponse;
    list_shard_keys(ListShardKeysRequest) -> ListShardKeysResponse;
}

service! {
    Points {
        async fn create_field_index(&self, request: Request<CreateFieldIndexCollection>) -> Answer<PointsOperationResponse> {
            let request = request.into_inner();
            let params = request.field_index_params.and_then(|params| params.index_params);
            let Some(payload_index_params::IndexParams::KeywordIndexParams(params)) = params else {
                return Err(Status::unimplemented("an index of another kind"));
            };
            if params.is_tenant != Some(true) {
                return Err(Status::invalid_argument("the rows of collections are mixed on the disk"));
            }
            self.change((&request.collection_name, request.wait), |collection| {
                collection.indexed.push(request.field_name);
                Ok(())
            })
        }

        async fn upsert(&self, request: Request<UpsertPoints>) -> Answer<PointsOperationResponse> {
            let request = request.into_inner();
            self.change((&request.collection_name, request.wait), |collection| {
                request.points.into_iter().try_for_each(|point| collection.upsert(point))
            })
        }

        async fn delete(&self, request: Request<DeletePoints>) -> Answer<PointsOperationResponse> {
            let request = request.into_inner();
            self.change((&request.collection_name, request.wait), |collection| {
                for id in collection.selected(request.points, false)? {
                    collection.points.remove(&id);
                }
                Ok(())
            })
        }

        async fn set_payload(&self, request: Request<SetPayloadPoints>) -> Answer<PointsOperationResponse> {
            let request = request.into_inner();
            self.change((&request.collection_name, request.wait), |collection| {
                for id in collection.selected(request.points_selector, true)? {
                    if let Some(point) = collection.points.get_mut(&id) {
                        point.payload.extend(request.payload.clone());
                    }
                }
                Ok(())
            })
        }

        async fn get(&self, request: Request<GetPoints>) -> Answer<GetResponse> {
            let request = request.into_inner();
            let result = self.with(&request.collection_name, |collection| {
                let ids = request.ids.into_iter().map(|id| Id::try_from(Some(id)));
                let ids: Vec<Id> = ids.collect::<Result<_, _>>()?;
                Ok(ids.iter().filter_map(|id| collection.retrieved(id)).collect())
            })?;
            Ok(Response::new(GetResponse { result, ..GetResponse::default() }))
        }

        async fn scroll(&self, request: Request<ScrollPoints>) -> Answer<ScrollResponse> {
            let request = request.into_inner();
            let (result, next) = self.with(&request.collection_name, |collection| {
                let mut ids = collection.matching(request.filter.as_ref())?;
                if let Some(offset) = request.offset {
                    let first = Id::try_from(Some(offset))?;
                    ids.retain(|id| *id >= first);
                }
                let limit = request.limit.unwrap_or(10) as usize;
                let next = ids.get(limit).cloned().map(PointId::from);
                let page = ids.iter().take(limit);
                Ok((page.filter_map(|id| collection.retrieved(id)).collect(), next))
            })?;
            Ok(Response::new(ScrollResponse { result, next_page_offset: next, ..ScrollResponse::default() }))
        }

        async fn count(&self, request: Request<CountPoints>) -> Answer<CountResponse> {
            let request = request.into_inner();
            let count = self.with(&request.collection_name, |collection| {
                Ok(collection.matching(request.filter.as_ref())?.len() as u64)
            })?;
            let result = Some(CountResult { count });
            Ok(Response::new(CountResponse { result, ..CountResponse::default() }))
        }

        async fn facet(&self, request: Request<FacetCounts>) -> Answer<FacetResponse> {
            let request = request.into_inner();
            let counts = self.with(&request.collection_name, |collection| {
                let mut counts = BTreeMap::<String, u64>::new();
                for point in collection.points.values() {
                    if let Some(value) = point.keyword(&request.key) {
                        *counts.entry(value.clone()).or_default() += 1;
                    }
                }
                Ok(counts)
            })?;
            let hits = counts.into_iter().map(|(value, count)| FacetHit {
                value: Some(FacetValue { variant: Some(facet_value::Variant::StringValue(value)) }),
                count,
            });
            Ok(Response::new(FacetResponse { hits: hits.collect(), ..FacetResponse::default() }))
        }

        async fn query_batch(&self, request: Request<QueryBatchPoints>) -> Answer<QueryBatchResponse> {
            let request = request.into_inner();
            let result = self.with(&request.collection_name, |collection| {
                let results = request.query_points.iter().map(|query| collection.query(query));
                results.map(|result| Ok(BatchResult { result: result? })).collect()
            })?;
            Ok(Response::new(QueryBatchResponse { result, ..QueryBatchResponse::default() }))
        }
    }
    others:
    update_vectors(UpdatePointVectors) -> PointsOperationResponse;
    delete_vectors(DeletePointVectors) -> PointsOperationResponse;
    overwrite_payload(SetPayloadPoints) -> PointsOperationResponse;
    delete_payload(DeletePayloadPoints) -> PointsOperationResponse;
    clear_payload(ClearPayloadPoints) -> PointsOperationResponse;
    delete_field_index(DeleteFieldIndexCollection) -> PointsOperationResponse;
    create_vector_name(CreateVectorNameRequest) -> PointsOperationResponse;
    delete_vector_name(DeleteVectorNameRequest) -> PointsOperationResponse;
    search(SearchPoints) -> SearchResponse;
    search_batch(SearchBatchPoints) -> SearchBatchResponse;
    search_groups(SearchPointGroups) -> SearchGroupsResponse;
    recommend(RecommendPoints) -> RecommendResponse;
    recommend_batch(RecommendBatchPoints) -> RecommendBatchResponse;
    recommend_groups(RecommendPointGroups) -> RecommendGroupsResponse;
    discover(DiscoverPoints) -> DiscoverResponse;
    discover_batch(DiscoverBatchPoints) -> DiscoverBatchResponse;
    update_batch(UpdateBatchPoints) -> UpdateBatchResponse;
    query(QueryPoints) -> QueryResponse;
    query_groups(QueryPointGroups) -> QueryGroupsResponse;
    search_matrix_pairs(SearchMatrixPoints) -> SearchMatrixPairsResponse;
    search_matrix_offsets(SearchMatrixPoints) -> SearchMatrixOffsetsResponse;
}
