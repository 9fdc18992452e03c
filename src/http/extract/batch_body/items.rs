//! The items of a body that is read as a whole.

use std::vec;

use bytes::Bytes;
use facescan_batches::submission::{EntryError, ItemEntry};
use facescan_fields::FieldError;
use facescan_pipeline::{
    core::error::InvalidOption,
    ingest::{error::IngestError, source},
};

use super::super::{
    content::{Content, EntryField},
    entry::Entry,
    form::{self, Part},
};
use crate::http::error::ApiError;

/// The maximum number of items of a body that is read as a whole. Each takes memory of its own, however short it is.
pub(super) const MAX_ITEMS: usize = 10_000;

pub(super) const ITEM_FIELDS: &[&str] = &["id", "data", "url", "source", "source_url", "metadata"];

/// The items of a body. One that is malformed is refused alone.
#[derive(Default)]
pub(super) struct Items(Vec<Result<ItemEntry, EntryError>>);

impl Items {
    pub(super) fn into_entries(self) -> vec::IntoIter<Result<ItemEntry, EntryError>> {
        self.0.into_iter()
    }

    fn add_file(&mut self, id: Option<String>, bytes: Bytes) {
        self.0.push(Ok(ItemEntry {
            id,
            content: Some(source::Content::Bytes(bytes)),
            ..ItemEntry::default()
        }));
    }
}

impl Content for Items {
    const FIELDS: &'static [EntryField] = &[EntryField {
        name: "items",
        is_list: true,
        // An open batch gets its items later.
        wanted: None,
    }];
    const ENTRY: &'static [&'static str] = ITEM_FIELDS;
    const PARTS: &'static str = "`image`";
    const MOST: usize = MAX_ITEMS;
    const HAS_HEAD: bool = true;

    fn add(&mut self, _: &'static str, entry: Entry) -> Result<(), Vec<FieldError>> {
        self.0.push(item(entry));
        Ok(())
    }

    fn add_part(&mut self, part: Part) -> Result<Option<Part>, ApiError> {
        if !form::is_image(&part.name) {
            return Ok(Some(part));
        }
        self.add_file(part.file_name, part.content);
        Ok(None)
    }

    fn add_image(&mut self, bytes: Bytes) -> Result<(), ApiError> {
        self.add_file(None, bytes);
        Ok(())
    }

    fn count(&self) -> usize {
        self.0.len()
    }

    fn most(_: usize) -> usize {
        MAX_ITEMS
    }

    fn too_many(_: usize) -> ApiError {
        ApiError::TooManyItems { limit: MAX_ITEMS }
    }
}

/// Returns the item of an entry, or why it is refused.
pub(super) fn item(entry: Entry) -> Result<ItemEntry, EntryError> {
    if let Some(error) = entry.errors.into_iter().next() {
        return Err(match error.field.as_str() {
            "" => EntryError::Malformed(format!("it {}", error.detail).into()),
            _ => InvalidOption::new(error.field, error.detail).into(),
        });
    }
    Ok(ItemEntry {
        id: entry.id,
        content: match (entry.data, entry.url) {
            (Some(_), Some(_)) => return Err(IngestError::TwoSources.into()),
            (Some(data), None) => Some(source::Content::Bytes(data.into_bytes()?)),
            (None, Some(url)) => Some(source::Content::Url(url)),
            (None, None) => None,
        },
        source: entry.source,
        source_url: entry.source_url,
        metadata: entry.metadata,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::http::extract::{
        content::ReadBody,
        parsing::{ParseError, TOO_MANY, from_json},
    };

    fn read(json: &str) -> Result<ReadBody<Items>, String> {
        from_json(json.as_bytes()).map_err(|error| match error {
            ParseError::Syntax(detail) => detail,
            ParseError::Field(error) => error.detail,
        })
    }

    #[test]
    fn items_and_other_fields_come_in_any_order() {
        let json =
            r#"{"name":"a","items":[{"url":"x"},7],"options":{"operations":[{"box":[1,2]}]}}"#;
        let body = read(json).unwrap();
        let are_read: Vec<bool> = body
            .content
            .into_entries()
            .map(|item| item.is_ok())
            .collect();
        assert_eq!(are_read, [true, false]);
        let head = body
            .options
            .into_tree(&facescan_fields::Shape::from_schema::<
                crate::http::extract::batch_body::HeadFields,
            >());
        assert_eq!(
            Value::Object(head.unwrap()).to_string(),
            r#"{"name":"a","options":{"operations":[{"box":[1,2]}]}}"#
        );
    }

    #[test]
    fn a_malformed_item_refuses_itself_alone() {
        let json = r#"{"items":[{"id":"a","data":"aGVsbG8="}, 7, {"data":7}, {"data":"!"}, {"dta":"x"},
            {"data":"","url":"x"}, {"url":"https://example.org/a.jpg","metadata":{"page":1}}, {"id":"a\u0000"}]}"#;
        let items = read(json).unwrap().content.into_entries();
        let codes: Vec<_> = items
            .map(|item| item.map_or_else(|error| error.code(), |_| "ok"))
            .collect();
        let wrong = "invalid_option";
        assert_eq!(
            codes,
            [
                "ok",
                "invalid_body",
                wrong,
                wrong,
                wrong,
                wrong,
                "ok",
                wrong
            ]
        );
    }

    #[test]
    fn a_body_with_too_many_items_or_fields_is_not_read_further() {
        let too_many = format!(r#"{{"items":[{}and no JSON"#, "0,".repeat(MAX_ITEMS + 1));
        assert_eq!(read(&too_many).err().unwrap(), TOO_MANY);
        let many: String = (0..100).map(|n| format!(r#""{n}":[],"#)).collect();
        let error = read(&format!("{{{many}and no JSON")).err().unwrap();
        assert!(error.contains("too many options"), "{error}");
        assert_eq!(read(r#"{"items":[],"items":[]}"#).unwrap().errors.len(), 1);
    }
}
