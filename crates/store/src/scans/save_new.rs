//! Saving the scans of new images with one call of the database.
//!
//! A statement costs more than its rows: it wakes the thread of SQLite, or Postgres, and then this process. Most images are new, so
//! that no row of them can conflict with a stored one, and all their rows can be sent together.

use std::collections::HashSet;
use std::fmt::Write as _;

use uuid::Uuid;

use super::new_rows::{NewFaceRow, NewImageRow, NewScanRow, NewVectorRow, ScanToSave};
use super::sources::NewSourceRow;
use crate::connection::Connection;
use crate::error::StoreError;
use crate::parameters::params;
use crate::schema;
use crate::values::{Many, Rows, Value};

/// The most faces of one transaction that saves several scans, and of each scan that is saved with one call.
pub(super) const MAX_FACES: usize = 64;

/// Saves the scans whose image the tenant does not have yet, and returns the ids of their images. It leaves the others to
/// [`save_scans`](super::save::save_scans), and all of them if the tables are not those of this version of the program.
///
/// Run it in a transaction. Postgres needs none, because it gets a single statement.
///
/// # Errors
///
/// Returns an error, too, if an id is that of a stored row. SQLite then takes the image to be new.
pub(super) async fn save_new(
    connection: &mut Connection<'_>,
    scans: &[ScanToSave<'_>],
) -> Result<HashSet<Uuid>, StoreError> {
    let scans = with_few_faces(scans);
    if scans.is_empty() {
        return Ok(HashSet::new());
    }
    let images: Result<Vec<_>, _> = scans.iter().map(|it| NewImageRow::new(it.scan)).collect();
    let images = images?;
    let sources: Vec<_> = scans
        .iter()
        .filter_map(|it| NewSourceRow::new(it.scan.image.id, it.scan.source.as_ref()?))
        .collect();
    let scans: Vec<_> = scans
        .iter()
        .map(|it| NewScanRow::new(it.scan, it.scan.image.id, it.batch))
        .collect();
    let faces: Vec<_> = scans.iter().flat_map(NewFaceRow::all).collect();
    let scan_vectors: Vec<_> = scans.iter().filter_map(NewVectorRow::from_scan).collect();
    let face_vectors: Vec<_> = faces.iter().filter_map(NewVectorRow::from_face).collect();

    let images = padded(images.iter().map(NewImageRow::values), None);
    let sources = SOURCES.padded(sources.iter().map(NewSourceRow::values));
    let scans = SCANS.padded(scans.iter().map(NewScanRow::values));
    let faces = FACES.padded(faces.iter().map(NewFaceRow::values));
    let scan_vectors = scan_vectors.iter().map(NewVectorRow::values_with_image);
    let scan_vectors = SCAN_VECTORS.padded(scan_vectors);
    let face_vectors = face_vectors.iter().map(NewVectorRow::values_with_image);
    let face_vectors = FACE_VECTORS.padded(face_vectors);
    let tables = [
        (&SOURCES, sources.is_empty()),
        (&SCANS, scans.is_empty()),
        (&SCAN_VECTORS, scan_vectors.is_empty()),
        (&FACES, faces.is_empty()),
        (&FACE_VECTORS, face_vectors.is_empty()),
    ];
    let tables = tables.into_iter().filter(|(_, is_empty)| !is_empty);
    let tables = tables.map(|(table, _)| table);
    let text = match connection.has_several_writers() {
        true => one_statement(tables),
        false => statements(tables),
    };
    let (known, checksums) = schema::known(connection.migrator());
    let values = params!(
        known,
        checksums = Many(&checksums),
        images = Rows(&images),
        sources = Rows(&sources),
        scans = Rows(&scans),
        scan_vectors = Rows(&scan_vectors),
        faces = Rows(&faces),
        face_vectors = Rows(&face_vectors),
    );
    let new: Vec<Uuid> = connection.fetch_all_text(&text, values).await?;
    Ok(new.into_iter().collect())
}

/// Returns the scans for one call in the order of their images, so that two calls that save the same ones do not wait for each other.
fn with_few_faces<'a>(scans: &[ScanToSave<'a>]) -> Vec<ScanToSave<'a>> {
    let scans = scans.iter().copied();
    let mut few: Vec<_> = scans
        .filter(|it| it.scan.faces.len() <= MAX_FACES)
        .collect();
    few.sort_by_key(ScanToSave::image_key);
    few
}

/// A table with rows of images.
struct Table {
    /// The table and its columns.
    into: &'static str,
    /// The parameter with the rows.
    rows: &'static str,
    /// The columns of the rows.
    columns: &'static str,
    /// The column of the rows with the id of the image, from 1.
    image: usize,
}

const SOURCES: Table = Table {
    into: NewSourceRow::INTO,
    rows: "sources",
    columns: "v.*",
    image: 1,
};

const SCANS: Table = Table {
    into: NewScanRow::INTO,
    rows: "scans",
    columns: "v.*",
    image: 2,
};

const FACES: Table = Table {
    into: NewFaceRow::INTO,
    rows: "faces",
    columns: "v.*",
    image: 3,
};

/// The id of the image goes before the columns of a vector.
const OF_VECTOR: &str = "column2, column3, column4, column5, column6, column7";

const SCAN_VECTORS: Table = Table {
    into: NewVectorRow::INTO_SCANS,
    rows: "scan_vectors",
    columns: OF_VECTOR,
    image: 1,
};

const FACE_VECTORS: Table = Table {
    into: NewVectorRow::INTO_FACES,
    rows: "face_vectors",
    columns: OF_VECTOR,
    image: 1,
};

impl Table {
    /// Adds rows of no image, which are not inserted, until their number is a power of two. A statement then has few texts, and a
    /// connection keeps the plan of each.
    fn padded<'v, const N: usize>(
        &self,
        rows: impl Iterator<Item = [&'v dyn Value; N]>,
    ) -> Vec<[&'v dyn Value; N]> {
        padded(rows, Some(self.image - 1))
    }

    /// Returns the statement that inserts the rows of the images in a table or query.
    fn insert(&self, images: &str) -> String {
        let Self {
            into,
            rows,
            columns,
            image,
        } = self;
        format!(
            "INSERT INTO {into} SELECT {columns} FROM (VALUES :{rows}) v \
             WHERE EXISTS (SELECT 1 FROM {images} i WHERE i.id = v.column{image})"
        )
    }
}

/// Inserts the images that the tenant does not have, and returns their ids. A row that is there twice is inserted once.
fn insert_images() -> String {
    format!(
        "INSERT INTO {} SELECT v.* FROM (VALUES :images) v WHERE {} \
         ON CONFLICT (tenant, sha256) DO NOTHING RETURNING id",
        NewImageRow::INTO,
        schema::IS_KNOWN
    )
}

/// Returns the text for Postgres, whose parts see the rows of others only by their names.
fn one_statement<'t>(tables: impl Iterator<Item = &'t Table>) -> String {
    let mut text = format!("WITH new_images AS ({})", insert_images());
    for table in tables {
        let insert = table.insert("new_images");
        // Writing to a text cannot fail.
        write!(text, ", new_{} AS ({insert})", table.rows).ok();
    }
    text + " SELECT id FROM new_images"
}

/// Returns the text for SQLite, whose driver runs several statements with the same values. Each sees the rows of those before it.
/// No stored image has the id of a new one.
fn statements<'t>(tables: impl Iterator<Item = &'t Table>) -> String {
    let inserts = tables.map(|table| table.insert("images"));
    let all: Vec<String> = [insert_images()].into_iter().chain(inserts).collect();
    all.join("; ")
}

/// Repeats the last row until the number of rows is a power of two. The copies have no image, if a column has its id.
pub(super) fn padded<'v, const N: usize>(
    rows: impl Iterator<Item = [&'v dyn Value; N]>,
    image: Option<usize>,
) -> Vec<[&'v dyn Value; N]> {
    const NO_IMAGE: &Uuid = &Uuid::nil();
    let mut rows: Vec<_> = rows.collect();
    if let Some(&(mut copy)) = rows.last() {
        if let Some(image) = image {
            copy[image] = NO_IMAGE;
        }
        rows.resize(rows.len().next_power_of_two(), copy);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepared::{Listed, check};
    use crate::scans::{save::upsert_images_text, sources::add_sources_text};

    const ROWS: &[(&str, &str)] = &[
        (
            "images",
            "uuid, text, bytea, bigint, integer, integer, text, smallint, bigint, timestamptz",
        ),
        ("sources", "uuid, bytea, text, text, timestamptz"),
        (
            "scans",
            "uuid, uuid, bytea, text, text, bytea, text, text, jsonb, jsonb, boolean, timestamptz, uuid",
        ),
        (
            "faces",
            "uuid, uuid, uuid, integer, real, real, real, real, real, real[], jsonb",
        ),
        (
            "scan_vectors",
            "uuid, uuid, text, text, integer, real, real[]",
        ),
        (
            "face_vectors",
            "uuid, uuid, text, text, integer, real, real[]",
        ),
    ];

    /// The table of the versions is not one of the migrations.
    fn listed(name: &'static str, only: &'static str, text: &str) -> Listed {
        Listed {
            name,
            text: text.replace(schema::IS_KNOWN, "TRUE").leak(),
            rows: ROWS,
            only,
            scans: "",
            sorts: "",
        }
    }

    #[test]
    fn both_databases_find_the_rows_of_texts_for_a_call() {
        let tables = || [&SOURCES, &SCANS, &SCAN_VECTORS, &FACES, &FACE_VECTORS].into_iter();
        let one = one_statement(tables());
        let several = statements(tables());
        let mut texts = vec![listed("one_statement", "postgres", &one)];
        texts.extend(
            several
                .split("; ")
                .map(|text| listed("statements", "sqlite", text)),
        );
        let images = upsert_images_text().replace(":rows", ":images");
        texts.push(listed("upsert_images_text", "", &images));
        let sources = add_sources_text().replace(":rows", ":sources");
        texts.push(listed("add_sources_text", "", &sources));
        check(&texts);
    }
}
