//! Writes vectors as a Parquet table: one row for each vector, for each image without a face, and for each failed
//! image.

use std::{fs::File, sync::Arc};

use parquet::{
    data_type::{ByteArray, ByteArrayType, DataType, FloatType, Int32Type},
    file::{
        metadata::KeyValue,
        properties::WriterProperties,
        writer::{SerializedFileWriter, SerializedRowGroupWriter},
    },
    schema::parser::parse_message_type,
};

use crate::cli::embed::record::{FacePlace, Record};

const SCHEMA: &str = "message facescan {
    required binary path (STRING);
    optional int32 face;
    optional float x1;
    optional float y1;
    optional float x2;
    optional float y2;
    optional float score;
    optional float embedding_norm;
    optional binary precision (STRING);
    optional group embedding (LIST) { repeated group list { required float element; } }
    optional binary error_code (STRING);
    optional binary error_detail (STRING);
}";

/// The number of rows in a row group.
const ROWS: usize = 1024;

/// An open Parquet file.
pub struct ParquetFile {
    writer: SerializedFileWriter<File>,
    rows: Vec<Record>,
    vectors: usize,
}

impl ParquetFile {
    /// Creates a file. Its metadata contains the vector space and the length of its vectors.
    pub fn new(file: File, vector_space: &str, dim: usize) -> anyhow::Result<Self> {
        let schema = Arc::new(parse_message_type(SCHEMA)?);
        let facts = [
            ("vector_space", vector_space.to_owned()),
            ("dim", dim.to_string()),
        ];
        let facts = facts.map(|(name, value)| KeyValue::new(format!("facescan.{name}"), value));
        let properties = WriterProperties::builder()
            .set_key_value_metadata(Some(facts.into()))
            // The values of vectors hardly repeat, so a dictionary does not help.
            .set_column_dictionary_enabled("embedding.list.element".into(), false)
            .build();
        Ok(Self {
            writer: SerializedFileWriter::new(file, schema, Arc::new(properties))?,
            rows: Vec::with_capacity(ROWS),
            vectors: 0,
        })
    }

    pub fn write(&mut self, record: Record) -> anyhow::Result<()> {
        self.vectors += usize::from(record.vector.is_some());
        self.rows.push(record);
        if self.rows.len() == ROWS {
            self.write_group()?;
        }
        Ok(())
    }

    /// Writes the remaining rows and returns the number of vectors.
    pub fn finish(mut self) -> anyhow::Result<usize> {
        if !self.rows.is_empty() {
            self.write_group()?;
        }
        self.writer.close()?;
        Ok(self.vectors)
    }

    /// Writes the columns in the order of the schema.
    fn write_group(&mut self) -> anyhow::Result<()> {
        let mut group = self.writer.next_row_group()?;
        let rows = std::mem::take(&mut self.rows);
        let text = |text: &str| ByteArray::from(text);
        let face = |row: &Record| -> Option<FacePlace> { row.vector.as_ref()?.face.clone() };
        column::<ByteArrayType>(&mut group, rows.iter().map(|row| Some(text(&row.path))), 0)?;
        let number = |row| i32::try_from(face(row)?.face).ok();
        column::<Int32Type>(&mut group, rows.iter().map(number), 1)?;
        for side in 0..4 {
            let side = |row| Some(face(row)?.bbox[side]);
            column::<FloatType>(&mut group, rows.iter().map(side), 1)?;
        }
        column::<FloatType>(&mut group, rows.iter().map(|row| face(row)?.score), 1)?;
        let norm = |row: &Record| Some(row.vector.as_ref()?.embedding.norm);
        column::<FloatType>(&mut group, rows.iter().map(norm), 1)?;
        let precision = |row: &Record| Some(text(row.vector.as_ref()?.embedding.precision?.name()));
        column::<ByteArrayType>(&mut group, rows.iter().map(precision), 1)?;
        vectors(&mut group, &rows)?;
        let code = |row: &Record| Some(text(row.error.as_ref()?.code));
        column::<ByteArrayType>(&mut group, rows.iter().map(code), 1)?;
        let detail = |row: &Record| Some(text(&row.error.as_ref()?.detail));
        column::<ByteArrayType>(&mut group, rows.iter().map(detail), 1)?;
        group.close()?;
        self.rows = rows;
        self.rows.clear();
        Ok(())
    }
}

/// Writes a column. A value at the definition level `present` exists; a value below it is absent.
fn column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: impl Iterator<Item = Option<T::T>>,
    present: i16,
) -> anyhow::Result<()> {
    let (mut there, mut levels) = (Vec::new(), Vec::new());
    for value in values {
        levels.push(if value.is_some() { present } else { 0 });
        there.extend(value);
    }
    write::<T>(group, &there, &levels, None)
}

/// Writes the column of lists. The repetition level is 0 for the first value of a list and 1 for the others.
fn vectors(group: &mut SerializedRowGroupWriter<'_, File>, rows: &[Record]) -> anyhow::Result<()> {
    let (mut values, mut present, mut repeats) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        let vector = row.vector.as_ref().map(|vector| &vector.embedding.vector);
        let start = values.len();
        values.extend(vector.into_iter().flatten().copied());
        let len = values.len() - start;
        // An absent list also has one definition level, which marks it as absent.
        present.extend(std::iter::repeat_n(
            if len == 0 { 0 } else { 2 },
            len.max(1),
        ));
        repeats.extend((0..len.max(1)).map(|at| i16::from(at > 0)));
    }
    write::<FloatType>(group, &values, &present, Some(&repeats))
}

fn write<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    values: &[T::T],
    present: &[i16],
    repeats: Option<&[i16]>,
) -> anyhow::Result<()> {
    if let Some(mut column) = group.next_column()? {
        column
            .typed::<T>()
            .write_batch(values, Some(present), repeats)?;
        column.close()?;
    }
    Ok(())
}
