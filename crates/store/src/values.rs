//! Values as both databases take them and return them.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgArguments, PgTypeInfo, PgValueRef};
use sqlx::sqlite::{SqliteArguments, SqliteArgumentsBuffer, SqliteTypeInfo, SqliteValueRef};
use sqlx::{Arguments, Database, Decode, Encode, Postgres, Sqlite, Type};

/// A value that either database takes as a parameter.
pub(super) trait Value: Sync {
    /// Binds the value as the next parameter.
    fn bind_postgres(&self, arguments: &mut PgArguments) -> Result<(), BoxDynError>;
    /// Binds the value as the next parameter.
    fn bind_sqlite(&self, arguments: &mut SqliteArguments) -> Result<(), BoxDynError>;
}

impl<T> Value for T
where
    T: Sync,
    T: Type<Postgres> + for<'q> Encode<'q, Postgres>,
    T: Type<Sqlite> + for<'q> Encode<'q, Sqlite>,
{
    fn bind_postgres(&self, arguments: &mut PgArguments) -> Result<(), BoxDynError> {
        arguments.add(self)
    }

    fn bind_sqlite(&self, arguments: &mut SqliteArguments) -> Result<(), BoxDynError> {
        Arguments::add(arguments, self)
    }
}

/// A SHA-256: `bytea` in Postgres, `BLOB` in SQLite.
#[derive(Clone, Copy)]
pub(super) struct Digest(pub(super) [u8; 32]);

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
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// 32-bit floats, kept bit for bit: `real[]` in Postgres, a `BLOB` of little-endian values in SQLite.
#[derive(Clone)]
pub(super) struct Floats(pub(super) Vec<f32>);

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
