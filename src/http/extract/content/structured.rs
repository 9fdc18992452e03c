//! Reads JSON and msgpack bodies as a stream, and notes what is wrong with their fields.

use std::{fmt, marker::PhantomData, sync::PoisonError};

use axum::extract::Request;
use facescan_fields::{FieldError, MAX_ERRORS, MAX_NAME_BYTES, wording};
use serde::{
    Deserialize, Deserializer,
    de::{DeserializeSeed, Error, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

use super::{
    super::{
        arriving::{SharedReservation, body},
        body::{FieldReader, Options},
        entry::{Entry, EntrySeed, skip_plain},
        options::SentOptions,
        parsing::{ParseError, TOO_MANY, check_is_object, from_json, from_packed, parse},
        texts,
    },
    Content, EntryField, OPTIONS, ReadBody, long_text,
};
use crate::http::{AppState, error::ApiError, middleware::context};

/// Reads a JSON or msgpack body. `limit` is the number of images that a request may have.
pub(super) async fn read<C: Content>(
    request: Request,
    state: &AppState,
    reservation: &SharedReservation,
    is_json: bool,
    limit: usize,
) -> Result<ReadBody<C>, ApiError> {
    let tenant = context::from_request(&request)?.principal.tenant;
    let body = body(request, state.config.server.max_body_bytes).await?;
    let length = body.len();
    reserve_parsed(reservation, length)?;
    let parse_body = move || {
        check_is_object(&body, is_json)?;
        let prepared = match is_json {
            true => texts::prepared_json(body),
            false => texts::check_msgpack(&body).map(|()| body),
        };
        let body = prepared.map_err(long_text::<C>)?;
        let parsed = match is_json {
            true => from_json(&body),
            false => from_packed(&body),
        };
        drop(body);
        parsed.map_err(|error| match error {
            ParseError::Field(error) if error.detail.starts_with(TOO_MANY) => C::too_many(limit),
            error => error.into(),
        })
    };
    parse(state, tenant, length, parse_body).await
}

/// Reserves as much again as a body of `bytes` bytes, for what is built from it.
fn reserve_parsed(reservation: &SharedReservation, bytes: usize) -> Result<(), ApiError> {
    let mut reservation = reservation.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(reservation.grow_to(bytes.saturating_mul(2))?)
}

impl<'de, C: Content> Deserialize<'de> for ReadBody<C> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(BodyVisitor(PhantomData))
    }
}

struct BodyVisitor<C>(PhantomData<C>);

impl<'de, C: Content> Visitor<'de> for BodyVisitor<C> {
    type Value = ReadBody<C>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ReadBody<C>, A::Error> {
        let mut body = ReadBody::new(C::default(), SentOptions::default());
        let mut options = None;
        let (mut head, fields) = (Map::new(), FieldReader::default());
        let mut seen: Vec<&str> = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            let field = C::FIELDS.iter().find(|field| field.name == name);
            match field {
                Some(field) if seen.contains(&field.name) => {
                    map.next_value::<IgnoredAny>()?;
                    body.refuse(FieldError::new(field.name, "is there twice; send it once"));
                }
                Some(field) => {
                    seen.push(field.name);
                    map.next_value_seed(FieldSeed {
                        field,
                        body: &mut body,
                    })?;
                }
                None if C::HAS_HEAD => {
                    let value = map.next_value_seed(fields.value(&name, head.len())?)?;
                    head.insert(name, value);
                }
                None if name == OPTIONS => options = map.next_value::<Option<Options>>()?,
                None => {
                    map.next_value::<IgnoredAny>()?;
                    if body.unknown.len() < MAX_ERRORS {
                        body.unknown.push(wording::beginning(&name, MAX_NAME_BYTES));
                    }
                }
            }
        }
        for field in C::FIELDS.iter().filter(|field| !seen.contains(&field.name)) {
            if let Some(wanted) = field.wanted {
                body.refuse(FieldError::new(
                    field.name,
                    format!("is missing; send {wanted}"),
                ));
            }
        }
        body.options = SentOptions::from_tree(if C::HAS_HEAD {
            Some(Value::Object(head))
        } else {
            options.map(|options| options.0)
        });
        Ok(body)
    }
}

impl<C: Content> ReadBody<C> {
    fn refuse(&mut self, error: FieldError) {
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        }
    }

    /// Gives an entry to the content. `index` is its place in a list.
    fn add(&mut self, field: &'static EntryField, index: Option<usize>, entry: Entry) {
        let Err(errors) = self.content.add(field.name, entry) else {
            return;
        };
        let path = match index {
            Some(index) => format!("{}[{index}]", field.name),
            None => field.name.to_owned(),
        };
        for error in errors {
            self.refuse(error.inside(&path));
        }
    }
}

/// Reads the entries of a field into a body.
struct FieldSeed<'a, C> {
    field: &'static EntryField,
    body: &'a mut ReadBody<C>,
}

impl<'de, C: Content> DeserializeSeed<'de> for FieldSeed<'_, C> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        let Self { field, body } = self;
        if !field.is_list {
            let entry = EntrySeed(C::ENTRY).deserialize(deserializer)?;
            body.add(field, None, entry);
            return Ok(());
        }
        let seed = FieldSeed {
            field,
            body: &mut *body,
        };
        if !deserializer.deserialize_any(seed)? {
            let wanted = field.wanted.unwrap_or("a list of objects");
            body.refuse(FieldError::not_allowed(field.name, wanted));
        }
        Ok(())
    }
}

/// Visits a list. Returns whether the value is one.
impl<'de, C: Content> Visitor<'de> for FieldSeed<'_, C> {
    type Value = bool;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<bool, A::Error> {
        let mut index = 0;
        while let Some(entry) = list.next_element_seed(EntrySeed(C::ENTRY))? {
            if index == C::MOST {
                return Err(A::Error::custom(TOO_MANY));
            }
            self.body.add(self.field, Some(index), entry);
            index += 1;
        }
        Ok(true)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<bool, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(false)
    }

    skip_plain!(false);
}
