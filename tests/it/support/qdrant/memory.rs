//! The points of the Qdrant server in the test process.

use std::collections::{BTreeMap, HashMap};

use qdrant_client::qdrant::{
    Condition, Filter, PointId, PointStruct, PointsSelector, QueryPoints, RetrievedPoint,
    ScoredPoint, Value, condition::ConditionOneOf, r#match::MatchValue, point_id::PointIdOptions,
    points_selector::PointsSelectorOneOf, query, vector, vector_input, vectors::VectorsOptions,
};
use tonic::Status;

/// The id of a point, in the order of Qdrant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Id {
    Number(u64),
    Uuid(String),
}

pub struct Point {
    pub vector: Vec<f32>,
    pub payload: HashMap<String, Value>,
}

/// A Qdrant collection.
#[derive(Default)]
pub struct Collection {
    pub dim: u64,
    /// The payload fields with an index. A filter on another field is refused, as in the strict mode of Qdrant.
    pub indexed: Vec<String>,
    pub points: BTreeMap<Id, Point>,
}

impl Collection {
    pub fn upsert(&mut self, point: PointStruct) -> Result<(), Status> {
        let id = Id::try_from(point.id)?;
        let options = point.vectors.and_then(|vectors| vectors.vectors_options);
        let Some(VectorsOptions::Vector(vector)) = options else {
            return Err(Status::invalid_argument("expected one vector"));
        };
        let Some(vector::Vector::Dense(vector)) = vector.vector else {
            return Err(Status::invalid_argument("expected a dense vector"));
        };
        if vector.data.len() as u64 != self.dim {
            return Err(Status::invalid_argument("the vector has another dimension"));
        }
        let payload = point.payload;
        let vector = vector.data;
        self.points.insert(id, Point { vector, payload });
        Ok(())
    }

    /// Returns the points that a change selects. A missing id is an error only where `must_exist` is set.
    pub fn selected(
        &self,
        selector: Option<PointsSelector>,
        must_exist: bool,
    ) -> Result<Vec<Id>, Status> {
        match selector.and_then(|selector| selector.points_selector_one_of) {
            Some(PointsSelectorOneOf::Points(list)) => {
                let ids = list.ids.into_iter().map(|id| Id::try_from(Some(id)));
                let ids: Vec<Id> = ids.collect::<Result<_, _>>()?;
                let missing = ids.iter().find(|id| !self.points.contains_key(id));
                match missing.filter(|_| must_exist) {
                    Some(id) => Err(Status::not_found(format!("no point with id {id:?}"))),
                    None => Ok(ids),
                }
            }
            Some(PointsSelectorOneOf::Filter(filter)) => self.matching(Some(&filter)),
            None => Err(Status::invalid_argument("no points are selected")),
        }
    }

    /// Returns the points of a filter, in order.
    pub fn matching(&self, filter: Option<&Filter>) -> Result<Vec<Id>, Status> {
        let mut ids = Vec::new();
        let conditions = filter.map_or(&[][..], |filter| &filter.must);
        for (id, point) in &self.points {
            let mut is_match = true;
            for condition in conditions {
                is_match &= self.matches(condition, id, point)?;
            }
            if is_match {
                ids.push(id.clone());
            }
        }
        Ok(ids)
    }

    fn matches(&self, condition: &Condition, id: &Id, point: &Point) -> Result<bool, Status> {
        match &condition.condition_one_of {
            Some(ConditionOneOf::HasId(wanted)) => {
                let ids = wanted.has_id.iter().cloned();
                let ids = ids.map(|id| Id::try_from(Some(id)));
                Ok(ids.collect::<Result<Vec<_>, _>>()?.contains(id))
            }
            Some(ConditionOneOf::Field(field)) if self.indexed.contains(&field.key) => {
                let wanted = field
                    .r#match
                    .as_ref()
                    .and_then(|it| it.match_value.as_ref());
                let Some(MatchValue::Keyword(wanted)) = wanted else {
                    return Err(Status::unimplemented("a condition of another kind"));
                };
                Ok(point.keyword(&field.key) == Some(wanted))
            }
            Some(ConditionOneOf::Field(_)) => {
                Err(Status::invalid_argument("the field has no index"))
            }
            _ => Err(Status::unimplemented("a condition of another kind")),
        }
    }

    /// Compares all points of the filter with the vector of a query. Without a vector it returns them by id.
    pub fn query(&self, request: &QueryPoints) -> Result<Vec<ScoredPoint>, Status> {
        let vector = match request
            .query
            .as_ref()
            .and_then(|query| query.variant.as_ref())
        {
            None => None,
            Some(query::Variant::Nearest(input)) => match &input.variant {
                Some(vector_input::Variant::Dense(vector)) => Some(&vector.data),
                _ => return Err(Status::unimplemented("an input of another kind")),
            },
            Some(_) => return Err(Status::unimplemented("a query of another kind")),
        };
        let mut found = Vec::new();
        for id in self.matching(request.filter.as_ref())? {
            let point = &self.points[&id];
            let dot =
                |vector: &Vec<f32>| vector.iter().zip(&point.vector).map(|(a, b)| a * b).sum();
            found.push(ScoredPoint {
                payload: point.payload.clone(),
                score: vector.map_or(0.0, dot),
                id: Some(id.into()),
                ..ScoredPoint::default()
            });
        }
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
        found.truncate(request.limit.unwrap_or(10).try_into().unwrap());
        Ok(found)
    }

    pub fn retrieved(&self, id: &Id) -> Option<RetrievedPoint> {
        let point = self.points.get(id)?;
        Some(RetrievedPoint {
            id: Some(id.clone().into()),
            payload: point.payload.clone(),
            ..RetrievedPoint::default()
        })
    }
}

impl Point {
    pub fn keyword(&self, field: &str) -> Option<&String> {
        self.payload.get(field)?.as_str()
    }
}

impl TryFrom<Option<PointId>> for Id {
    type Error = Status;

    fn try_from(id: Option<PointId>) -> Result<Self, Status> {
        match id.and_then(|id| id.point_id_options) {
            Some(PointIdOptions::Num(number)) => Ok(Self::Number(number)),
            Some(PointIdOptions::Uuid(id)) => Ok(Self::Uuid(id)),
            None => Err(Status::invalid_argument("a point without an id")),
        }
    }
}

impl From<Id> for PointId {
    fn from(id: Id) -> Self {
        match id {
            Id::Number(number) => Self::from(number),
            Id::Uuid(id) => Self::from(id),
        }
    }
}
