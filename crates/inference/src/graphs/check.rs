//! Shared by the graphs' tests: the runtime, images and runs.

#![expect(clippy::unwrap_used, reason = "only tests use this module")]

use std::{num::NonZeroUsize, path::PathBuf, sync::OnceLock};

use image::{Rgb, RgbImage};

use super::{
    ImageGraph,
    session::{GraphModel, GraphSession, Input, Samples},
};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
use crate::backend::openvino::OpenvinoBackend;
#[cfg(feature = "torch")]
use crate::backend::torch::TorchBackend;
#[cfg(any(feature = "torch", all(target_os = "linux", target_arch = "x86_64")))]
use crate::placement::{Precision, Provider};
use crate::{
    backend::{Backend, Model, Opening, ort::OrtBackend},
    placement::DevicePlacement,
};
use facescan_imaging::{
    decode::{DecodeOptions, decode},
    synthetic::{noise, synthetic},
};

/// Returns a file that `scripts/setup --tests` fetched or made.
pub fn fetched(path: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../.runtime");
    let path = folder.join(path);
    assert!(
        path.exists(),
        "there is no {}: run scripts/setup --tests",
        path.display()
    );
    path
}

/// A loaded graph.
pub type Graph = Box<dyn GraphSession>;

/// Returns the runtime, loaded once for the process.
pub fn onnx_runtime() -> &'static OrtBackend {
    static BACKEND: OnceLock<OrtBackend> = OnceLock::new();
    BACKEND.get_or_init(|| {
        let name = format!(
            "{}onnxruntime{}",
            std::env::consts::DLL_PREFIX,
            std::env::consts::DLL_SUFFIX
        );
        let library = fetched("onnxruntime").join(name);
        OrtBackend::load(&library, &fetched("plugins")).unwrap()
    })
}

/// Returns a session on each runtime, with the runtime's name.
pub fn open_each(graph: ImageGraph) -> Vec<(&'static str, Graph)> {
    let model = graph.model();
    let runtimes = RUNTIMES.iter();
    runtimes
        .map(|runtime| (runtime.name, runtime.open(&model)))
        .collect()
}

/// One of the runtimes that compute the graphs here.
#[derive(Clone, Copy)]
pub struct Runtime {
    /// The name in test messages.
    pub name: &'static str,
    backend: fn() -> &'static dyn Backend,
    placement: DevicePlacement,
}

/// Returns OpenVINO, loaded once for the process.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn openvino() -> &'static dyn Backend {
    static BACKEND: OnceLock<OpenvinoBackend> = OnceLock::new();
    BACKEND.get_or_init(|| OpenvinoBackend::new(&fetched("plugins/openvino")))
}

/// All of them: ONNX Runtime, OpenVINO where it exists, and libtorch if it is linked. The expected results hold on all.
pub const RUNTIMES: &[Runtime] = &[
    Runtime {
        name: "onnx",
        backend: || onnx_runtime(),
        placement: DevicePlacement::CPU,
    },
    #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
    Runtime {
        name: "openvino",
        backend: openvino,
        placement: DevicePlacement::first(Provider::OpenvinoCpu, Precision::Full),
    },
    #[cfg(feature = "torch")]
    Runtime {
        name: "torch",
        backend: || &TorchBackend,
        placement: DevicePlacement::first(Provider::TorchCpu, Precision::Full),
    },
];

impl Runtime {
    /// Returns a session.
    pub fn open(self, model: &GraphModel) -> Graph {
        let opening = Opening {
            placement: self.placement,
            ..Opening::on_cpu(Model::Graph(model), NonZeroUsize::MIN, 1)
        };
        (self.backend)().open_graph(&opening).unwrap()
    }
}

/// Returns the only output of a run, which must contain floats.
pub fn floats(session: &mut Graph, inputs: &[Input<'_>]) -> (Vec<usize>, Vec<f32>) {
    let [output] = session.run(inputs).unwrap().try_into().unwrap();
    match output.samples {
        Samples::F32(values) => (output.shape, values),
        Samples::U8(_) => panic!("floats were expected"),
    }
}

/// Returns the only output of a run, which must be an image.
pub fn image(session: &mut Graph, inputs: &[Input<'_>]) -> RgbImage {
    let [output] = session.run(inputs).unwrap().try_into().unwrap();
    match (output.samples, output.shape.as_slice()) {
        (Samples::U8(bytes), &[height, width, 3]) => {
            RgbImage::from_raw(width as u32, height as u32, bytes).unwrap()
        }
        other => panic!("an image was expected, not {other:?}"),
    }
}

/// Returns two photographs that `scripts/setup --tests` fetched.
pub fn photographs() -> Vec<(&'static str, RgbImage)> {
    ["t1.jpg", "astronaut.png"]
        .map(|name| {
            let bytes = std::fs::read(fetched("pictures").join(name)).unwrap();
            (
                name,
                decode(&bytes, &DecodeOptions::default()).unwrap().pixels,
            )
        })
        .into()
}

/// Returns difficult images: sides of 1 and 2, no contrast, full contrast, noise, and noise near black.
pub fn extremes() -> Vec<(String, RgbImage)> {
    let mut images = Vec::new();
    for (width, height) in [(1, 1), (1, 37), (37, 1), (2, 2), (2, 19), (23, 5)] {
        images.push((format!("noise {width}x{height}"), noise(width, height)));
    }
    for level in [0, 1, 93, 254, 255] {
        let flat = RgbImage::from_pixel(31, 18, Rgb([level, level, level]));
        images.push((format!("flat {level}"), flat));
    }
    let flat = RgbImage::from_pixel(112, 112, Rgb([93, 180, 41]));
    images.push(("flat color".to_owned(), flat));
    let checks = RgbImage::from_fn(40, 33, |x, y| Rgb([(x + y) as u8 % 2 * 255; 3]));
    images.push(("checks".to_owned(), checks));
    let mut dark = noise(64, 48);
    dark.as_mut().iter_mut().for_each(|v| *v %= 6);
    images.push(("noise near black".to_owned(), dark));
    let mut bright = noise(64, 48);
    bright.as_mut().iter_mut().for_each(|v| *v = 250 + *v % 6);
    images.push(("noise near white".to_owned(), bright));
    images.push(("noise".to_owned(), noise(90, 71)));
    images.push(("synthetic".to_owned(), synthetic(97, 61)));
    images
}
