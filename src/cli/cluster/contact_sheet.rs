//! A page with the faces of each person. It has everything in one file, so it can be sent and opened without a server.

use std::{fs, io::Write, path::Path};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use facescan_imaging::{
    decode::{DecodeOptions, decode},
    encode::{OutputFormat, encode},
    resize::{Filter, resize},
};
use facescan_inference::pool::Stage;
use futures::{StreamExt as _, stream};
use image::{RgbImage, imageops};

use super::FoundFaces;
use crate::{app::App, cli::files};

/// The side of a thumbnail in pixels.
const SIDE: u32 = 112;

/// A thumbnail is larger than the box of its face by this factor.
const MARGIN: f32 = 1.5;

const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
    <meta name=\"viewport\" content=\"width=device-width\">\n<title>People</title>\n\
    <style>\nbody { font: 16px system-ui, sans-serif; margin: 2rem; }\n\
    section { display: flex; flex-wrap: wrap; gap: 4px; }\nimg { border-radius: 8px; }\n</style>\n";

/// Writes the page: the people in the order of the output, then the faces of nobody. A face whose image cannot be read again has
/// no thumbnail.
pub(super) async fn write(
    app: &App,
    found: &FoundFaces,
    people: &[Option<u32>],
    mut page: impl Write,
) -> anyhow::Result<()> {
    let thumbnails = thumbnails(app, found).await;
    page.write_all(HEAD.as_bytes())?;
    for (person, faces) in found.by_person(people) {
        let title = match person {
            Some(number) => format!("Person {number}"),
            None => "Nobody".to_owned(),
        };
        writeln!(page, "<h2>{title}, {} faces</h2>\n<section>", faces.len())?;
        for face in faces {
            let name = escaped(&files::name(&found.faces[face].path));
            let data = &thumbnails[face];
            writeln!(
                page,
                "<img src=\"data:image/jpeg;base64,{data}\" width=\"{SIDE}\" height=\"{SIDE}\" alt=\"{name}\" title=\"{name}\">"
            )?;
        }
        writeln!(page, "</section>")?;
    }
    Ok(page.flush()?)
}

/// Returns a JPEG of each face, in base64. The images are decoded again, because keeping them would take the memory of all.
async fn thumbnails(app: &App, found: &FoundFaces) -> Vec<String> {
    let images = found.faces.chunk_by(|one, next| one.image == next.image);
    let parallel = app.pipeline.pool.threads() + 1;
    let crops: Vec<Vec<String>> = stream::iter(images)
        .map(|faces| {
            let path = faces[0].source.clone();
            let boxes: Vec<[f32; 4]> = faces.iter().map(|face| face.bbox).collect();
            let decoding = app.pipeline.decoding;
            async move {
                let (file, count) = (path.clone(), boxes.len());
                let work = move || crops(&file, &boxes, &decoding);
                let done = app.pipeline.pool.run(Stage::Finish, work).await;
                done.map_err(anyhow::Error::from)
                    .flatten()
                    .unwrap_or_else(|error| {
                        eprintln!("{}: no thumbnails: {error:#}", files::name(&path));
                        vec![String::new(); count]
                    })
            }
        })
        .buffered(parallel)
        .collect()
        .await;
    crops.into_iter().flatten().collect()
}

fn crops(path: &Path, boxes: &[[f32; 4]], decoding: &DecodeOptions) -> anyhow::Result<Vec<String>> {
    let bytes = fs::read(path)?;
    let image = decode(&bytes, decoding)?.pixels;
    boxes
        .iter()
        .map(|bbox| {
            let small = resize(&square(&image, *bbox), SIDE, SIDE, Filter::Bilinear);
            let jpeg = encode(&small, OutputFormat::Jpeg { quality: 80 })?;
            Ok(BASE64_STANDARD.encode(jpeg))
        })
        .collect()
}

/// Returns a square around a face, inside the image.
fn square(image: &RgbImage, [x1, y1, x2, y2]: [f32; 4]) -> RgbImage {
    let (width, height) = image.dimensions();
    let side = ((x2 - x1).max(y2 - y1) * MARGIN).round();
    let side = (side as u32).clamp(1, width.min(height));
    let start = |center: f32, length: u32| {
        let start = (center - side as f32 / 2.0).max(0.0) as u32;
        start.min(length - side)
    };
    let (x, y) = (
        start((x1 + x2) / 2.0, width),
        start((y1 + y2) / 2.0, height),
    );
    imageops::crop_imm(image, x, y, side, side).to_image()
}

fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_square_is_inside_the_image_and_around_the_face() {
        let image = RgbImage::from_fn(100, 50, |x, y| image::Rgb([x as u8, y as u8, 0]));
        let cut = square(&image, [90.0, 10.0, 110.0, 30.0]);
        assert_eq!(cut.dimensions(), (30, 30));
        assert_eq!(
            cut.get_pixel(0, 0).0,
            [70, 5, 0],
            "the face is cut by the border"
        );
        assert_eq!(
            square(&image, [0.0, 0.0, 100.0, 100.0]).dimensions(),
            (50, 50)
        );
        assert_eq!(square(&image, [5.0, 5.0, 5.0, 5.0]).dimensions(), (1, 1));
    }

    #[test]
    fn a_name_cannot_add_tags() {
        assert_eq!(escaped("\"><script>&"), "&quot;&gt;&lt;script&gt;&amp;");
    }
}
