//! The output files of vectors.

use std::{
    fs::File,
    io::{self, BufWriter, Seek, SeekFrom, Write},
    path::Path,
};

use anyhow::Context;
use facescan_pipeline::results::ErrorEntry;
use serde::Serialize;

use super::record::{FacePlace, Record};
use crate::cli::preprocess::{HEAD, beside, create};
use facescan_imaging::{npy, precision::NumericPrecision};
use parquet::ParquetFile;

mod parquet;

/// The type of an output file. The end of its name decides it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// A matrix of f32. An index file describes each row.
    Npy,
    Parquet,
    /// One JSON object per line.
    Jsonl,
}

impl Ending {
    pub fn from_path(path: &Path) -> anyhow::Result<Self> {
        match path.extension().and_then(|ending| ending.to_str()) {
            Some("npy") => Ok(Self::Npy),
            Some("parquet") => Ok(Self::Parquet),
            Some("jsonl") => Ok(Self::Jsonl),
            _ => anyhow::bail!(
                "--out {}: must end in .npy, .parquet or .jsonl",
                path.display()
            ),
        }
    }
}

/// An open output file of vectors.
pub enum VectorFile {
    Npy(NpyFile),
    Parquet(Box<ParquetFile>),
    Jsonl(Lines),
}

pub struct Lines {
    out: Box<dyn Write>,
    vector_space: String,
    vectors: usize,
}

/// A matrix, and its index file.
pub struct NpyFile {
    matrix: BufWriter<File>,
    index: Lines,
    dim: usize,
}

/// A line of JSON.
#[derive(Serialize)]
struct Line<'a> {
    path: &'a str,
    /// The index of the row in the matrix.
    #[serde(skip_serializing_if = "Option::is_none")]
    row: Option<usize>,
    #[serde(flatten)]
    face: Option<&'a FacePlace>,
    /// The length of the vector before normalization.
    #[serde(skip_serializing_if = "Option::is_none")]
    embedding_norm: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    embedding: Option<&'a [f32]>,
    /// The vector space of the vector. Only vectors with the same vector space can be compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    vector_space: Option<&'a str>,
    /// The precision that the model used for the vector.
    #[serde(skip_serializing_if = "Option::is_none")]
    precision: Option<NumericPrecision>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a ErrorEntry>,
}

impl VectorFile {
    /// Creates a file. Without a path, the lines go to standard output.
    pub fn create(
        out: Option<(&Path, Ending)>,
        vector_space: &str,
        dim: usize,
    ) -> anyhow::Result<Self> {
        let lines = |out: Box<dyn Write>| Lines {
            out,
            vector_space: vector_space.to_owned(),
            vectors: 0,
        };
        let Some((path, ending)) = out else {
            return Ok(Self::Jsonl(lines(Box::new(io::stdout()))));
        };
        Ok(match ending {
            Ending::Npy => {
                let mut matrix = BufWriter::new(create(path)?);
                matrix.write_all(&[0; HEAD])?;
                let index = BufWriter::new(create(&beside(path))?);
                Self::Npy(NpyFile {
                    matrix,
                    index: lines(Box::new(index)),
                    dim,
                })
            }
            Ending::Parquet => Self::Parquet(Box::new(ParquetFile::new(
                create(path)?,
                vector_space,
                dim,
            )?)),
            Ending::Jsonl => Self::Jsonl(lines(Box::new(BufWriter::new(create(path)?)))),
        })
    }

    pub fn write(&mut self, record: Record) -> anyhow::Result<()> {
        match self {
            Self::Jsonl(lines) => lines.write(&record, true),
            Self::Npy(file) => {
                if let Some(vector) = &record.vector {
                    for value in &vector.embedding.vector {
                        file.matrix.write_all(&value.to_le_bytes())?;
                    }
                }
                file.index.write(&record, false)
            }
            Self::Parquet(file) => file.write(record),
        }
    }

    /// Writes the remaining rows and returns the number of vectors.
    pub fn finish(self) -> anyhow::Result<usize> {
        match self {
            Self::Jsonl(lines) => lines.finish(),
            Self::Npy(NpyFile {
                mut matrix,
                index,
                dim,
            }) => {
                let rows = index.finish()?;
                let head = npy::header_of_len(npy::Kind::F32, &[rows, dim], HEAD)
                    .context("the header is longer than the space that is reserved for it")?;
                matrix.seek(SeekFrom::Start(0))?;
                matrix.write_all(&head)?;
                matrix.flush()?;
                Ok(rows)
            }
            Self::Parquet(file) => file.finish(),
        }
    }
}

impl Lines {
    fn write(&mut self, record: &Record, with_vector: bool) -> anyhow::Result<()> {
        let vector = record.vector.as_ref();
        let line = Line {
            path: &record.path,
            row: vector.filter(|_| !with_vector).map(|_| self.vectors),
            face: vector.and_then(|vector| vector.face.as_ref()),
            embedding_norm: vector.map(|vector| vector.embedding.norm),
            embedding: vector
                .filter(|_| with_vector)
                .map(|vector| vector.embedding.vector.as_slice()),
            vector_space: vector.map(|_| self.vector_space.as_str()),
            precision: vector.and_then(|vector| vector.embedding.precision),
            error: record.error.as_ref(),
        };
        writeln!(self.out, "{}", serde_json::to_string(&line)?)?;
        self.vectors += usize::from(vector.is_some());
        Ok(())
    }

    fn finish(mut self) -> anyhow::Result<usize> {
        self.out.flush()?;
        Ok(self.vectors)
    }
}

#[cfg(test)]
mod tests;
