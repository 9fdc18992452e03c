//! Prints results as a table for people: one row per face.

use std::{
    io::{self, Write},
    path::Path,
};

use facescan_pipeline::results::{FaceResponse, ScanResult, response::Outcome};

/// Prints rows with fixed column widths as they arrive. A table that adapts its widths would have to hold every row.
#[derive(Debug, Default)]
pub struct Table {
    images: usize,
    faces: usize,
    failed: usize,
}

impl Table {
    pub fn print(
        &mut self,
        out: &mut impl Write,
        path: &Path,
        outcome: &Outcome<ScanResult>,
    ) -> io::Result<()> {
        if self.images == 0 {
            writeln!(
                out,
                "{:>7} {:>7} {:>7} {:>7}  {:>5}  {:>7}  IMAGE",
                "X1", "Y1", "X2", "Y2", "SCORE", "QUALITY"
            )?;
        }
        self.images += 1;
        let path = path.display();
        match outcome {
            Outcome::Error(failure) => {
                self.failed += 1;
                let error = &failure.error;
                writeln!(out, "{:>46}  {path}: {}", error.code, error.detail)
            }
            Outcome::Ok(image) if image.result.faces.is_empty() => {
                writeln!(out, "{:>46}  {path}", "no face")
            }
            Outcome::Ok(image) => {
                let faces = &image.result.faces;
                self.faces += faces.len();
                faces
                    .iter()
                    .try_for_each(|face| writeln!(out, "{}  {path}", row(face)))
            }
        }
    }

    pub fn finish(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "{} images, {} faces, {} failed",
            self.images, self.faces, self.failed
        )
    }
}

fn row(face: &FaceResponse) -> String {
    let [x1, y1, x2, y2] = face.bbox;
    let score = face
        .score
        .map_or_else(|| "-".to_owned(), |score| format!("{score:.3}"));
    let quality = face.results.quality.as_ref().map_or_else(
        || "-".to_owned(),
        |quality| format!("{:.2}", quality.overall),
    );
    format!("{x1:>7.1} {y1:>7.1} {x2:>7.1} {y2:>7.1}  {score:>5}  {quality:>7}")
}
