//! Types that are read from a row of either database.

use sqlx::error::BoxDynError;
use sqlx::postgres::{PgRow, PgTypeInfo, PgValueRef};
use sqlx::sqlite::{SqliteRow, SqliteTypeInfo, SqliteValueRef};
use sqlx::types::JsonValue;
use sqlx::{ColumnIndex, Decode, Postgres, Row, Sqlite, Type};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::named::Named;
use crate::times::from_micros;
use crate::values::{Digest, Floats};

/// A type that is read from a row of either database.
///
/// `sqlx::FromRow` is for one of them, and its derive needs both drivers at build time, so cargo would compile them twice.
pub(crate) trait Record: Sized + Send {
    /// Reads the columns of a row.
    fn from_row(row: &Columns<'_>) -> Result<Self, sqlx::Error>;
}

/// A type of values that both databases return.
pub(crate) trait Column:
    for<'r> Decode<'r, Postgres> + Type<Postgres> + for<'r> Decode<'r, Sqlite> + Type<Sqlite>
{
}

impl<T> Column for T where
    T: for<'r> Decode<'r, Postgres> + Type<Postgres> + for<'r> Decode<'r, Sqlite> + Type<Sqlite>
{
}

/// The columns that tell which row has a damaged value.
const KEYS: [&str; 8] = [
    "delivery_id",
    "id",
    "batch_id",
    "tenant",
    "number",
    "position",
    "first",
    "host",
];

/// The columns of a row of either database.
pub(crate) enum Columns<'r> {
    Postgres(&'r PgRow),
    Sqlite(&'r SqliteRow),
}

impl Columns<'_> {
    /// Returns the value of a column.
    pub(crate) fn get<T: Column>(
        &self,
        column: impl ColumnIndex<PgRow> + ColumnIndex<SqliteRow>,
    ) -> Result<T, sqlx::Error> {
        match self {
            Self::Postgres(row) => row.try_get(column),
            Self::Sqlite(row) => row.try_get(column),
        }
    }

    /// Returns a whole number, which the databases keep with a sign.
    pub(crate) fn number<T: TryFrom<i64>>(&self, column: &str) -> Result<T, sqlx::Error> {
        let Integer(number) = self.get(column)?;
        T::try_from(number).map_err(|_| self.damaged(column))
    }

    /// Returns a time that is kept as microseconds since 1970.
    pub(crate) fn time(&self, column: &str) -> Result<OffsetDateTime, sqlx::Error> {
        from_micros(self.get(column)?).ok_or_else(|| self.damaged(column))
    }

    /// Returns a time as [`time`](Self::time) does, or `None` if the column is null. A time that cannot be read is an
    /// error and not `None`: it must not make a key valid for ever.
    pub(crate) fn optional_time(
        &self,
        column: &str,
    ) -> Result<Option<OffsetDateTime>, sqlx::Error> {
        match self.get(column)? {
            None::<i64> => Ok(None),
            Some(_) => self.time(column).map(Some),
        }
    }

    /// Returns a time that nothing depends on. `None` if the column is null or has no time: a damaged one must not make the
    /// row unusable.
    pub(crate) fn informal_time(
        &self,
        column: &str,
    ) -> Result<Option<OffsetDateTime>, sqlx::Error> {
        Ok(self.get::<Option<i64>>(column)?.and_then(from_micros))
    }

    /// Returns 64 bits, which the databases keep as a number with a sign.
    pub(crate) fn bits(&self, column: &str) -> Result<Option<u64>, sqlx::Error> {
        Ok(self.get::<Option<i64>>(column)?.map(i64::cast_unsigned))
    }

    /// Returns the value that has the name in a column.
    pub(crate) fn named<T: Named>(&self, column: &str) -> Result<T, sqlx::Error> {
        let stored: String = self.get(column)?;
        T::from_name(&stored).ok_or_else(|| self.damaged(column))
    }

    /// Returns the error of a stored value that cannot be read. It names the row by those of its columns that are keys.
    pub(crate) fn damaged(&self, column: &str) -> sqlx::Error {
        let keys = KEYS.iter().filter_map(|key| {
            // SQLite reads any 16 bytes as a UUID, so texts come first.
            let text = self.get::<String>(*key);
            let text = text.or_else(|_| self.get::<Uuid>(*key).map(|id| id.to_string()));
            let text = text.or_else(|_| {
                let number = self.get::<Integer>(*key);
                number.map(|Integer(number)| number.to_string())
            });
            text.ok().map(|value| format!("{key} {value}"))
        });
        let keys = keys.collect::<Vec<_>>().join(", ");
        let row = match keys.as_str() {
            "" => "a row".to_owned(),
            keys => format!("the row with {keys}"),
        };
        sqlx::Error::ColumnDecode {
            index: column.to_owned(),
            source: format!("the value in {row} is damaged").into(),
        }
    }
}

/// A whole number of any size.
struct Integer(i64);

impl Type<Postgres> for Integer {
    fn type_info() -> PgTypeInfo {
        <i64 as Type<Postgres>>::type_info()
    }

    fn compatible(ty: &PgTypeInfo) -> bool {
        <i64 as Type<Postgres>>::compatible(ty)
            || <i32 as Type<Postgres>>::compatible(ty)
            || <i16 as Type<Postgres>>::compatible(ty)
    }
}

impl<'r> Decode<'r, Postgres> for Integer {
    fn decode(value: PgValueRef<'r>) -> Result<Self, BoxDynError> {
        <i64 as Decode<'r, Postgres>>::decode(value).map(Self)
    }
}

impl Type<Sqlite> for Integer {
    fn type_info() -> SqliteTypeInfo {
        <i64 as Type<Sqlite>>::type_info()
    }

    fn compatible(ty: &SqliteTypeInfo) -> bool {
        <i64 as Type<Sqlite>>::compatible(ty)
    }
}

impl<'r> Decode<'r, Sqlite> for Integer {
    fn decode(value: SqliteValueRef<'r>) -> Result<Self, BoxDynError> {
        <i64 as Decode<'r, Sqlite>>::decode(value).map(Self)
    }
}

/// Implements [`Record`] for the only column of a query.
macro_rules! only_columns {
    ($($type:ty),+) => {
        $(
            impl Record for $type {
                fn from_row(row: &Columns<'_>) -> Result<Self, sqlx::Error> {
                    row.get(0_usize)
                }
            }
        )+
    };
}

only_columns!(
    Uuid,
    String,
    Option<String>,
    bool,
    i64,
    Option<i64>,
    JsonValue
);

/// Any row.
impl Record for () {
    fn from_row(_: &Columns<'_>) -> Result<Self, sqlx::Error> {
        Ok(())
    }
}

impl Record for [u8; 32] {
    fn from_row(row: &Columns<'_>) -> Result<Self, sqlx::Error> {
        let Digest(hash) = row.get(0_usize)?;
        Ok(hash)
    }
}

impl Record for u64 {
    fn from_row(row: &Columns<'_>) -> Result<Self, sqlx::Error> {
        let Integer(number) = row.get(0_usize)?;
        Self::try_from(number).map_err(|error| sqlx::Error::Decode(error.into()))
    }
}

impl<A: Column + Send, B: Column + Send> Record for (A, B) {
    fn from_row(row: &Columns<'_>) -> Result<Self, sqlx::Error> {
        Ok((row.get(0_usize)?, row.get(1_usize)?))
    }
}

/// A type of the fields of a record. It decides how a column is read: a time is one that is kept as microseconds.
pub(crate) trait Field: Sized {
    /// Reads the column, or the columns of a record in the record.
    fn read(row: &Columns<'_>, column: &str) -> Result<Self, sqlx::Error>;
}

/// Implements [`Field`] for types that are read in the same way.
macro_rules! fields {
    ($($row:ident, $column:ident => $read:expr; $($type:ty),+;)+) => {
        $($(
            impl Field for $type {
                fn read($row: &Columns<'_>, $column: &str) -> Result<Self, sqlx::Error> {
                    $read
                }
            }
        )+)+
    };
}

fields! {
    row, column => row.get(column);
        bool, i32, i64, Option<i64>, f32, f64, Option<f64>, String, Option<String>, Vec<u8>,
        Uuid, Option<Uuid>, JsonValue, Option<JsonValue>;
    row, column => row.number(column); u8, u32, u64;
    row, column => row.time(column); OffsetDateTime;
    row, column => row.optional_time(column); Option<OffsetDateTime>;
    row, column => Ok(row.get::<Digest>(column)?.0); [u8; 32];
    row, column => Ok(row.get::<Option<Digest>>(column)?.map(|digest| digest.0)); Option<[u8; 32]>;
    row, column => Ok(row.get::<Floats>(column)?.0); Vec<f32>;
}

impl<T: Named> Field for T {
    fn read(row: &Columns<'_>, column: &str) -> Result<Self, sqlx::Error> {
        row.named(column)
    }
}

/// Declares structs whose fields are read from the columns with the same names, as [`Field`] says for their types. A field with
/// `= method("column")` is read by this method of [`Columns`] from this column:
///
/// ```text
/// record! {
///     struct Seen {
///         id: Uuid,
///         key_id: Option<String> = get("key"),
///         // A column of the type `timestamptz`. Without `get`, it is a number of microseconds.
///         created_at: OffsetDateTime = get("created_at"),
///         // The columns of another record, in the same row.
///         counts: Counts,
///     }
/// }
/// ```
macro_rules! record {
    (@read $row:ident $field:ident) => {
        $crate::record::Field::read($row, stringify!($field))
    };
    (@read $row:ident $field:ident $method:ident $column:literal) => {
        $row.$method($column)
    };
    ($(
        $(#[$meta:meta])*
        $vis:vis struct $name:ident {
            $(
                $(#[$field_meta:meta])*
                $field_vis:vis $field:ident: $type:ty $(= $method:ident($column:literal))?,
            )+
        }
    )+) => {
        $(
            $(#[$meta])*
            $vis struct $name {
                $($(#[$field_meta])* $field_vis $field: $type,)+
            }

            impl $crate::record::Record for $name {
                fn from_row(row: &$crate::record::Columns<'_>) -> Result<Self, sqlx::Error> {
                    Ok(Self {
                        $($field: $crate::record::record!(@read row $field $($method $column)?)?,)+
                    })
                }
            }

            impl $crate::record::Field for $name {
                fn read(row: &$crate::record::Columns<'_>, _: &str) -> Result<Self, sqlx::Error> {
                    $crate::record::Record::from_row(row)
                }
            }
        )+
    };
}

pub(crate) use record;
