//! Inserting many rows with COPY, in its binary format.
//!
//! A row is the number of its fields, and then each field as its length and its value. All integers have the network's byte
//! order. The values are encoded as for the parameters of a statement. See the chapter on COPY in the manual of Postgres.

use std::mem;

use sqlx::{PgConnection, encode::IsNull, error::BoxDynError, postgres::PgArgumentBuffer};

use crate::values::Value;

/// The signature, no flags, and no extension of the header.
const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
/// The number of fields that ends the data.
const END: i16 = -1;
/// The length of a field that is NULL.
const NULL: i32 = -1;

/// Inserts rows of `N` values each. `into` is `table (columns)`.
pub(super) async fn insert<const N: usize>(
    connection: &mut PgConnection,
    into: &'static str,
    rows: &[[&dyn Value; N]],
) -> Result<(), sqlx::Error> {
    if rows.is_empty() {
        return Ok(());
    }
    let data = encode(rows).map_err(sqlx::Error::Encode)?;
    let statement = format!("COPY {into} FROM STDIN (FORMAT binary)");
    let mut copy = connection.copy_in_raw(&statement).await?;
    copy.send(data).await?;
    copy.finish().await?;
    Ok(())
}

fn encode<const N: usize>(rows: &[[&dyn Value; N]]) -> Result<Vec<u8>, BoxDynError> {
    let mut buffer = PgArgumentBuffer::default();
    buffer.extend_from_slice(HEADER);
    for row in rows {
        buffer.extend_from_slice(&i16::try_from(N)?.to_be_bytes());
        for value in row {
            let start = buffer.len();
            buffer.extend_from_slice(&NULL.to_be_bytes());
            if let IsNull::No = value.encode_postgres(&mut buffer)? {
                let value = start + size_of::<i32>();
                let len = i32::try_from(buffer.len() - value)?;
                buffer[start..value].copy_from_slice(&len.to_be_bytes());
            }
        }
    }
    buffer.extend_from_slice(&END.to_be_bytes());
    Ok(mem::take(&mut *buffer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_the_length_of_each_value() {
        let rows: [[&dyn Value; 3]; 1] = [[&7_i32, &None::<String>, &"ab"]];
        let expected = [
            HEADER,
            &[0, 3],
            &[0, 0, 0, 4, 0, 0, 0, 7],
            &[255, 255, 255, 255],
            &[0, 0, 0, 2, b'a', b'b'],
            &[255, 255],
        ];
        assert_eq!(encode(&rows).unwrap(), expected.concat());
    }
}
