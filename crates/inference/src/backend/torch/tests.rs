use std::{num::NonZeroUsize, path::PathBuf};

use super::*;
use crate::{
    backend::{Batch, ort::OrtBackend},
    graphs::{
        ImageGraph,
        check::{fetched, onnx_runtime, photographs},
    },
    placement::Precision,
    proof::prove_placement,
    tensor::Tensor,
};
use facescan_imaging::{
    resize::{Filter, resize},
    tensor::{ChannelOrder, Letterbox, Normalization, fill_row, letterbox_into},
};

/// The largest allowed difference between outputs.
const TOLERANCE: f32 = 1e-3;

fn placement(provider: Provider) -> DevicePlacement {
    DevicePlacement::first(provider, Precision::Full)
}

fn model(name: &str) -> PathBuf {
    fetched(&format!("models/{name}.onnx"))
}

fn opening(path: &Path, provider: Provider, count: usize) -> Opening<'_> {
    Opening {
        placement: placement(provider),
        ..Opening::on_cpu(Model::File(path), NonZeroUsize::MIN, count)
    }
}

fn of_graph(graph: &GraphModel, provider: Provider) -> Opening<'_> {
    Opening {
        placement: placement(provider),
        ..Opening::on_cpu(Model::Graph(graph), NonZeroUsize::MIN, 1)
    }
}

fn open(backend: &dyn Backend, path: &Path, provider: Provider) -> Box<dyn Session> {
    let mut sessions = backend.open(&opening(path, provider, 1)).unwrap();
    sessions.pop().unwrap()
}

/// Runs rows on libtorch and on ONNX Runtime. Returns the largest difference.
fn apart(name: &str, row_shape: &[usize], data: &[f32]) -> f32 {
    let path = model(name);
    let mut ours = open(&TorchBackend, &path, Provider::TorchCpu);
    let mut theirs = open(onnx_runtime(), &path, Provider::Cpu);
    assert_eq!(ours.signature(), theirs.signature(), "{name}");
    let batch = Batch::new(row_shape, data);
    let shapes = |outputs: &[Tensor]| -> Vec<(String, Vec<usize>)> {
        let each = outputs.iter();
        each.map(|output| (output.name.clone(), output.shape.clone()))
            .collect()
    };
    let (ours, theirs) = (ours.run(batch).unwrap(), theirs.run(batch).unwrap());
    assert_eq!(shapes(&ours), shapes(&theirs), "{name}");
    let pairs = ours.iter().zip(&theirs);
    pairs
        .flat_map(|(ours, theirs)| ours.data.iter().zip(&theirs.data))
        .map(|(ours, theirs)| {
            assert!(ours.is_finite());
            (ours - theirs).abs()
        })
        .fold(0.0, f32::max)
}

#[test]
fn detection_equals_onnx_runtime() {
    let bgr = Normalization::identity(ChannelOrder::Bgr);
    for (width, height) in [(640, 640), (320, 192)] {
        let mut rows = Vec::new();
        for (_, image) in photographs() {
            let letterbox = Letterbox::fit(image.dimensions(), (width, height));
            let mut row = vec![0.0; letterbox.row_len()];
            letterbox_into(&image, &letterbox, &bgr, &mut row);
            rows.extend(row);
        }
        let shape = [3, height as usize, width as usize];
        let apart = apart("yunet-2023mar", &shape, &rows);
        println!("detection at {width}x{height}: {apart:e} apart");
        assert!(apart < TOLERANCE, "{apart}");
    }
}

#[test]
fn embedding_equals_onnx_runtime() {
    let rgb = Normalization::identity(ChannelOrder::Rgb);
    let mut rows = Vec::new();
    for (_, image) in photographs() {
        let crop = resize(&image, 112, 112, Filter::Bilinear);
        let mut row = vec![0.0; 3 * 112 * 112];
        fill_row(&crop, &rgb, &mut row);
        rows.extend(row);
    }
    let apart = apart("sface-2021dec", &[3, 112, 112], &rows);
    println!("embedding: {apart:e} apart");
    assert!(apart < TOLERANCE, "{apart}");
}

#[test]
fn the_cpu_passes_the_self_test_graph() {
    prove_placement(
        &TorchBackend,
        placement(Provider::TorchCpu),
        NonZeroUsize::MIN,
    )
    .unwrap();
}

#[test]
fn quality_runs_in_rows() {
    let graph = ImageGraph::Quality.model();
    let theirs = of_graph(&graph, Provider::Cpu);
    let mut theirs = onnx_runtime().open(&theirs).unwrap();
    let mut ours = TorchBackend
        .open(&of_graph(&graph, Provider::TorchCpu))
        .unwrap();
    assert_eq!(ours[0].signature(), theirs[0].signature());
    let data: Vec<f32> = (0..2 * 3 * 112 * 112)
        .map(|i| (i * 7 % 251) as f32)
        .collect();
    let batch = Batch::new(&[3, 112, 112], &data);
    let (ours, theirs) = (ours[0].run(batch).unwrap(), theirs[0].run(batch).unwrap());
    assert_eq!(ours[0].shape, [2, 4]);
    for (ours, theirs) in ours[0].data.iter().zip(&theirs[0].data) {
        assert!(
            (ours - theirs).abs() <= 1e-4 * theirs.abs(),
            "{ours}, expected {theirs}"
        );
    }
}

#[test]
fn sessions_of_one_model_run_at_the_same_time() {
    let path = model("yunet-2023mar");
    let opening = opening(&path, Provider::TorchCpu, 2);
    let sessions = TorchBackend.open(&opening).unwrap();
    let data = vec![99.0; 3 * 64 * 96];
    let batch = Batch::new(&[3, 64, 96], &data);
    let answers: Vec<_> = std::thread::scope(|scope| {
        let runs: Vec<_> = sessions
            .into_iter()
            .map(|mut session| scope.spawn(move || session.run(batch).unwrap()))
            .collect();
        runs.into_iter().map(|run| run.join().unwrap()).collect()
    });
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn an_error_names_what_is_missing() {
    let backend = TorchBackend;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("other.onnx");
    let error = backend
        .open(&opening(&path, Provider::TorchCpu, 1))
        .err()
        .unwrap();
    assert!(matches!(error, BackendError::Load { .. }));
    assert!(
        error.to_string().contains("run scripts/torchscript"),
        "{error}"
    );

    std::fs::write(path.with_extension("pt"), b"nothing").unwrap();
    let error = backend
        .open(&opening(&path, Provider::TorchCpu, 1))
        .err()
        .unwrap();
    assert!(matches!(error, BackendError::Load { .. }), "{error}");

    let elsewhere = backend
        .check_available(placement(Provider::Cuda))
        .unwrap_err();
    assert_eq!(elsewhere.to_string(), "libtorch does not run cuda");
    if Cuda::device_count() == 0 {
        let error = backend
            .check_available(placement(Provider::TorchCuda))
            .unwrap_err();
        assert!(error.to_string().contains("no CUDA"), "{error}");
    }
}

#[test]
fn rows_with_a_wrong_shape_give_an_error_of_one_line() {
    let mut session = open(&TorchBackend, &model("yunet-2023mar"), Provider::TorchCpu);
    let data = vec![0.0; 2 * 64 * 64];
    let batch = Batch::new(&[2, 64, 64], &data);
    let error = session.run(batch).unwrap_err();
    assert!(matches!(error, BackendError::Run(_)), "{error}");
    let words = error.to_string();
    assert!(
        words.contains("channels") && words.lines().count() == 1,
        "{words}"
    );
}

#[test]
fn out_of_memory_is_distinguished_from_other_failures() {
    let error = tch::Tensor::f_empty([1 << 50], (tch::Kind::Float, Device::Cpu)).unwrap_err();
    let error = failure(&error);
    assert!(matches!(error, BackendError::OutOfMemory(_)), "{error}");
    for words in [
        "CUDA out of memory. ProviderReport to allocate 20.00 MiB. GPU 0 has a total capacity of 139.81 GiB",
        "MPS backend out of memory (MPS allocated: 8.00 GB)",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    ] {
        let error = failure(&TchError::Torch(words.to_owned()));
        assert!(matches!(error, BackendError::OutOfMemory(_)), "{error}");
    }
    let other = TchError::Torch("CUDA error: an illegal memory access was encountered".to_owned());
    assert!(matches!(failure(&other), BackendError::Run(_)));
}

#[test]
fn onnx_runtime_refuses_placements_of_libtorch() {
    let backend: &OrtBackend = onnx_runtime();
    for provider in [Provider::TorchCpu, Provider::TorchCuda, Provider::TorchMps] {
        assert!(backend.check_available(placement(provider)).is_err());
    }
}
