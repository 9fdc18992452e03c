//! Structs that are read from a row of either database.

/// Declares a struct whose fields are read from the columns with the same names.
///
/// `with field: Type` adds a field that is such a struct itself, read from the same row.
///
/// `sqlx::FromRow` can be derived too, but the derive needs both database drivers at build time, so cargo would compile
/// them twice.
macro_rules! record {
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident { $($field_vis:vis $field:ident: $type:ty,)+ } $(with $part:ident: $part_type:ty)?
    ) => {
        $(#[$meta])*
        $vis struct $name {
            $($field_vis $field: $type,)+
            $($part: $part_type,)?
        }

        $crate::record::record!(@impl sqlx::postgres::PgRow, $name { $($field)+ } $($part: $part_type)?);
        $crate::record::record!(@impl sqlx::sqlite::SqliteRow, $name { $($field)+ } $($part: $part_type)?);
    };
    (@impl $row:ty, $name:ident { $($field:ident)+ } $($part:ident: $part_type:ty)?) => {
        impl sqlx::FromRow<'_, $row> for $name {
            fn from_row(row: &$row) -> Result<Self, sqlx::Error> {
                use sqlx::Row;
                Ok(Self {
                    $($field: row.try_get(stringify!($field))?,)+
                    $($part: <$part_type>::from_row(row)?,)?
                })
            }
        }
    };
}

pub(crate) use record;
