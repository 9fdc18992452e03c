//! Writes the graphs of [`facescan::inference::graphs`] with inputs and the CPU's own answers into a folder, for
//! `scripts/references/graphs.py` to try on another provider or machine, and prints how long ONNX Runtime's CPU
//! provider takes for each on one thread: `cargo run --example graph_cases -- FOLDER [PICTURE…]`.

use std::{
    fs,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::Context;
use facescan::{
    imaging::{
        decode::{DecodeOptions, decode},
        enhance::{EnhanceOptions, automatic_factor, enhance as enhance_on_cpu},
        quality::{canonical, measure},
        resize::{Filter, resize},
        tensor::{ChannelOrder, Normalisation, fill_row, letterbox_into, preprocess_into},
    },
    inference::{
        backend::ort::OrtBackend,
        graphs::{
            enhance, process, quality,
            session::{GraphModel, GraphSession, Input, Values},
        },
    },
    telemetry::opt_out,
};
use image::{Rgb, RgbImage};
use serde_json::{Value, json};

/// How far an answer may be off: by a number of units, or by a share of what was expected.
struct Tolerance {
    units: f32,
    share: f32,
}

const EXACT: Tolerance = Tolerance {
    units: 0.0,
    share: 0.0,
};
const LEVEL: Tolerance = Tolerance {
    units: 1.0,
    share: 0.0,
};
const MEASURES: Tolerance = Tolerance {
    units: 0.01,
    share: 0.005,
};

/// Where cases go, and what runs them here.
struct Cases {
    folder: PathBuf,
    backend: OrtBackend,
}

impl Cases {
    fn add(
        &self,
        name: &str,
        model: &GraphModel,
        inputs: &[Input<'_>],
        expected: &Values<'_>,
        tolerance: &Tolerance,
    ) -> anyhow::Result<()> {
        let folder = self.folder.join(name);
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("model.onnx"), &model.bytes)?;
        let listed = inputs
            .iter()
            .map(|input| {
                let dtype = write(&folder.join(input.name), &input.values)?;
                Ok(json!({"name": input.name, "shape": input.shape, "dtype": dtype}))
            })
            .collect::<anyhow::Result<Vec<Value>>>()?;
        let dtype = write(&folder.join("expected"), expected)?;
        let case = json!({
            "inputs": listed, "dtype": dtype, "units": tolerance.units, "share": tolerance.share,
        });
        fs::write(folder.join("case.json"), serde_json::to_vec(&case)?)?;
        let mut session = self.backend.open_graph(model, NonZeroUsize::MIN)?;
        session.run(inputs)?;
        let (started, mut runs) = (Instant::now(), 0);
        while runs < 3 || started.elapsed().as_millis() < 500 {
            session.run(inputs)?;
            runs += 1;
        }
        let each = started.elapsed().as_secs_f64() * 1e3 / f64::from(runs);
        println!("{name:40} {each:9.2} ms");
        Ok(())
    }

    fn picture(&self, name: &str, picture: &RgbImage) -> anyhow::Result<()> {
        let identity = Normalisation::identity(ChannelOrder::Rgb);
        let detector = Normalisation::identity(ChannelOrder::Bgr);
        let size = picture.dimensions();

        let side = (640, 640);
        let mut row = vec![0.0; 3 * 640 * 640];
        letterbox_into(picture, side, &detector, &mut row);
        let plan = process::LetterboxPlan::new(size, side);
        let inputs = plan.inputs(picture, &detector);
        let case = format!("letterbox_{name}");
        self.add(&case, &process::letterbox(), &inputs, &floats(row), &EXACT)?;

        let mut row = vec![0.0; 3 * 224 * 224];
        preprocess_into(picture, (224, 224), &identity, &mut row);
        let plan = process::PreprocessPlan::stretch(size, (224, 224));
        let inputs = plan.inputs(picture, [0; 3], &identity);
        let model = process::preprocess(process::Rounding::Once);
        let case = format!("preprocess_{name}");
        self.add(&case, &model, &inputs, &floats(row), &LEVEL)?;

        let whole = canonical(picture);
        let face = resize(picture, 112, 112, Filter::Area);
        for (what, picture, rows) in [("whole", &*whole, 1), ("faces", &face, 32)] {
            let mut row = vec![0.0; picture.as_raw().len()];
            fill_row(picture, &identity, &mut row);
            let (height, width) = (picture.height() as usize, picture.width() as usize);
            let data = row.repeat(rows);
            let inputs = quality::inputs(&data, [rows, height, width]);
            let q = measure(picture);
            let measures = [q.blur_score, q.brightness, q.contrast, q.sharpness].repeat(rows);
            let case = format!("quality_{what}_{name}");
            self.add(
                &case,
                &quality::graph(),
                &inputs,
                &floats(measures),
                &MEASURES,
            )?;
        }

        let small = resize(picture, 240, (240 * size.1 / size.0).max(1), Filter::Area);
        let factor = automatic_factor(small.width(), small.height());
        let enhanced = enhance_on_cpu(&small, &EnhanceOptions::default());
        let target = (small.width() * factor, small.height() * factor);
        let plan = enhance::Plan::new(small.dimensions(), target);
        let steps = enhance::Steps {
            contrast: true,
            sharpen: true,
        };
        self.add(
            &format!("enhance_{name}"),
            &enhance::graph(steps),
            &plan.inputs(&small),
            &Values::U8(enhanced.picture.into_raw().into()),
            &EXACT,
        )
    }
}

fn floats(values: Vec<f32>) -> Values<'static> {
    Values::F32(values.into())
}

/// Writes little-endian values and gives numpy's name for their type.
fn write(path: &Path, values: &Values<'_>) -> anyhow::Result<&'static str> {
    let (dtype, bytes) = match values {
        Values::U8(values) => ("uint8", values.to_vec()),
        Values::I32(values) => (
            "int32",
            values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        ),
        Values::F32(values) => (
            "float32",
            values.iter().flat_map(|v| v.to_le_bytes()).collect(),
        ),
    };
    fs::write(path, bytes).with_context(|| path.display().to_string())?;
    Ok(dtype)
}

fn main() -> anyhow::Result<()> {
    opt_out::of_the_runtime();
    let mut arguments = std::env::args_os().skip(1);
    let folder = arguments.next().context("name the folder to write to")?;
    let cases = Cases {
        folder: folder.into(),
        backend: OrtBackend::load(None, Path::new(".runtime/plugins"))?,
    };
    let mut state = 1u32;
    let noise = RgbImage::from_fn(500, 301, |_, _| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        Rgb([24, 16, 8].map(|shift| (state >> shift) as u8))
    });
    cases.picture("noise", &noise)?;
    for path in arguments.map(PathBuf::from) {
        let picture = decode(&fs::read(&path)?, &DecodeOptions::default())?.pixels;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        cases.picture(&name, &picture)?;
    }
    Ok(())
}
