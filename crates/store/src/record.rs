//! Structs that a row of either database fills, column by column.

/// Declares a struct and reads its fields from the columns of the same names. `with field: Type` reads a part of the
/// row as another such struct.
///
/// sqlx has a derive for this. It would compile both database drivers a second time, for the build machine.
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

pub(super) use record;
