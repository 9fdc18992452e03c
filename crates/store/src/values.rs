//! Values as both databases take them and return them.

use crate::json_text::JsonText;
use facescan_imaging::geometry::Landmarks;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgArguments, PgTypeInfo, PgValueRef};
use sqlx::sqlite::{SqliteArguments, SqliteArgumentsBuffer, SqliteTypeInfo, SqliteValueRef};
use sqlx::{Arguments, Database, Decode, Encode, Postgres, Sqlite, Type};
use time::OffsetDateTime;
use uuid::Uuid;

/// A value that either database takes as a parameter.
///
/// A connection to Postgres keeps a statement by its text, with the types of the first values. So every call with the same text
/// gives a parameter the same type, and an `i32` is not the same as a `u32`, which is bound as 64 bits.
pub(crate) trait Value: Sync {
    /// Binds the value as the next parameter.
    fn bind_postgres(&self, arguments: &mut PgArguments) -> Result<(), BoxDynError>;
    /// Binds the value as the next parameter.
    fn bind_sqlite(&self, arguments: &mut SqliteArguments) -> Result<(), BoxDynError>;

    /// Returns the values of a list. `None` if this is one value.
    fn list(&self) -> Option<List<'_>> {
        None
    }
}

/// The values of a parameter that stands for several.
pub(crate) struct List<'a> {
    /// The number of values of a row. `None` if they are no rows.
    pub(crate) columns: Option<usize>,
    /// The values, row by row.
    pub(crate) values: Vec<&'a dyn Value>,
}

/// A list of values: `IN (:ids)`. The last one is repeated until their number is a power of two, so that a statement has few texts,
/// and a connection keeps the plan of each.
pub(crate) struct Many<'a, T>(pub(crate) &'a [T]);

/// Rows of values: `VALUES :rows`.
pub(crate) struct Rows<'a, const N: usize>(pub(crate) &'a [[&'a dyn Value; N]]);

/// Implements [`Value`] for lists, whose values are bound one by one.
macro_rules! lists {
    ($([$($generics:tt)+] $type:ty, $this:ident => $list:expr;)+) => {
        $(
            impl<$($generics)+> Value for $type {
                fn bind_postgres(&self, _: &mut PgArguments) -> Result<(), BoxDynError> {
                    Err("a list is not one value".into())
                }

                fn bind_sqlite(&self, _: &mut SqliteArguments) -> Result<(), BoxDynError> {
                    Err("a list is not one value".into())
                }

                fn list(&self) -> Option<List<'_>> {
                    let $this = self;
                    Some($list)
                }
            }
        )+
    };
}

lists! {
    [T: Value] Many<'_, T>, this => List {
        columns: None,
        values: padded(this.0),
    };
    [const N: usize] Rows<'_, N>, this => List {
        columns: Some(N),
        values: this.0.as_flattened().to_vec(),
    };
}

fn padded<T: Value>(values: &[T]) -> Vec<&dyn Value> {
    let missing = values.len().next_power_of_two() - values.len();
    let last = values.last().into_iter().cycle().take(missing);
    let padded = values.iter().chain(last);
    padded.map(|value| value as &dyn Value).collect()
}

/// A text has the character U+0000. Postgres has no such texts and SQLite's functions cut them off, so neither gets one.
#[derive(Debug, thiserror::Error)]
#[error("a text has the character U+0000")]
pub(crate) struct NulInText;

/// A value that has texts.
trait Texts {
    fn has_nul(&self) -> bool;
}

impl Texts for &str {
    fn has_nul(&self) -> bool {
        self.contains('\0')
    }
}

impl Texts for String {
    fn has_nul(&self) -> bool {
        self.as_str().has_nul()
    }
}

impl Texts for serde_json::Value {
    fn has_nul(&self) -> bool {
        match self {
            Self::String(text) => text.has_nul(),
            Self::Array(values) => values.iter().any(Self::has_nul),
            Self::Object(fields) => fields
                .iter()
                .any(|(name, value)| name.has_nul() || value.has_nul()),
            Self::Null | Self::Bool(_) | Self::Number(_) => false,
        }
    }
}

impl Texts for JsonText {
    fn has_nul(&self) -> bool {
        self.has_nul()
    }
}

impl<T: Texts> Texts for Option<T> {
    fn has_nul(&self) -> bool {
        self.as_ref().is_some_and(T::has_nul)
    }
}

/// Implements [`Value`] for types that both drivers take.
macro_rules! values {
    ($check:expr; $($type:ty),+) => {
        $(
            impl Value for $type {
                fn bind_postgres(&self, arguments: &mut PgArguments) -> Result<(), BoxDynError> {
                    $check(self)?;
                    arguments.add(self)
                }

                fn bind_sqlite(&self, arguments: &mut SqliteArguments) -> Result<(), BoxDynError> {
                    $check(self)?;
                    Arguments::add(arguments, self)
                }
            }
        )+
    };
}

values!(without_nul; &str, String, Option<String>, serde_json::Value, Option<serde_json::Value>);
values!(without_nul; Option<JsonText>);
values!(unchecked; Vec<u8>, bool, i16, i32, Option<i32>, i64, Option<i64>, f32, Option<f32>, f64, Option<f64>);
values!(unchecked; Uuid, Option<Uuid>, OffsetDateTime, Option<OffsetDateTime>);
values!(unchecked; Digest, Option<Digest>, Floats, Option<Floats>);

fn without_nul(value: &impl Texts) -> Result<(), NulInText> {
    if value.has_nul() {
        Err(NulInText)
    } else {
        Ok(())
    }
}

fn unchecked<T>(_: &T) -> Result<(), NulInText> {
    Ok(())
}

/// Implements [`Value`] for types that are bound as another one.
macro_rules! bound_as {
    ($($type:ty, $this:ident => $bound:expr;)+) => {
        $(
            impl Value for $type {
                fn bind_postgres(&self, arguments: &mut PgArguments) -> Result<(), BoxDynError> {
                    let $this = self;
                    $bound.bind_postgres(arguments)
                }

                fn bind_sqlite(&self, arguments: &mut SqliteArguments) -> Result<(), BoxDynError> {
                    let $this = self;
                    $bound.bind_sqlite(arguments)
                }
            }
        )+
    };
}

bound_as! {
    u32, number => i64::from(*number);
    u64, number => signed(*number);
    Option<u64>, number => number.map(signed);
    [u8; 32], hash => Digest(*hash);
    Option<[u8; 32]>, hash => hash.map(Digest);
    Vec<f32>, values => Floats(values.clone());
    Option<Landmarks>, points => points.map(|points| Floats(points.as_flattened().to_vec()));
}

/// Returns a number as the databases keep it. One that is too great becomes the greatest of them, which no row has. Bits are no
/// number: cast them to an `i64`.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A SHA-256: `bytea` in Postgres, `BLOB` in SQLite.
#[derive(Clone, Copy)]
pub(crate) struct Digest(pub(crate) [u8; 32]);

impl<DB: Database> Type<DB> for Digest
where
    [u8]: Type<DB>,
{
    fn type_info() -> DB::TypeInfo {
        <[u8] as Type<DB>>::type_info()
    }

    fn compatible(ty: &DB::TypeInfo) -> bool {
        <[u8] as Type<DB>>::compatible(ty)
    }
}

impl<'q, DB: Database> Encode<'q, DB> for Digest
where
    Vec<u8>: Encode<'q, DB>,
{
    fn encode_by_ref(&self, buffer: &mut DB::ArgumentBuffer) -> Result<IsNull, BoxDynError> {
        self.0.to_vec().encode(buffer)
    }
}

impl<'r, DB: Database> Decode<'r, DB> for Digest
where
    &'r [u8]: Decode<'r, DB>,
{
    fn decode(value: DB::ValueRef<'r>) -> Result<Self, BoxDynError> {
        Ok(Self(<&[u8]>::decode(value)?.try_into()?))
    }
}

/// Returns bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// 32-bit floats, kept bit for bit: `real[]` in Postgres, a `BLOB` of little-endian values in SQLite.
#[derive(Clone)]
pub(crate) struct Floats(pub(crate) Vec<f32>);

impl Type<Postgres> for Floats {
    fn type_info() -> PgTypeInfo {
        <Vec<f32> as Type<Postgres>>::type_info()
    }

    fn compatible(ty: &PgTypeInfo) -> bool {
        <Vec<f32> as Type<Postgres>>::compatible(ty)
    }
}

impl Encode<'_, Postgres> for Floats {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        <Vec<f32> as Encode<'_, Postgres>>::encode_by_ref(&self.0, buffer)
    }
}

impl<'r> Decode<'r, Postgres> for Floats {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        <Vec<f32> as Decode<'r, Postgres>>::decode(value).map(Self)
    }
}

impl Type<Sqlite> for Floats {
    fn type_info() -> SqliteTypeInfo {
        <[u8] as Type<Sqlite>>::type_info()
    }
}

impl Encode<'_, Sqlite> for Floats {
    fn encode_by_ref(&self, buffer: &mut SqliteArgumentsBuffer) -> Result<IsNull, BoxDynError> {
        let bytes: Vec<u8> = self
            .0
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        <Vec<u8> as Encode<'_, Sqlite>>::encode(bytes, buffer)
    }
}

impl<'r> Decode<'r, Sqlite> for Floats {
    fn decode(value: SqliteValueRef<'r>) -> Result<Self, BoxDynError> {
        let bytes = <&[u8] as Decode<'r, Sqlite>>::decode(value)?;
        let (values, rest) = bytes.as_chunks::<4>();
        if !rest.is_empty() {
            return Err(format!(
                "{} bytes are not a whole number of 32-bit floats",
                bytes.len()
            )
            .into());
        }
        Ok(Self(
            values
                .iter()
                .map(|value| f32::from_le_bytes(*value))
                .collect(),
        ))
    }
}
