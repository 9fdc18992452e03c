use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use super::*;
use crate::{
    clock::SystemClock, inference::backend::Backend, inference::backend::fake::FakeBackend,
    inference::tensor::Signature,
};

fn signature() -> Signature {
    Signature {
        inputs: Vec::new(),
        outputs: Vec::new(),
    }
}

/// Answers each row with its sum, as `[rows, 1]`.
fn sums(batch: &Batch) -> Vec<Tensor> {
    let data: Vec<f32> = batch
        .data
        .chunks(batch.row_len())
        .map(|row| row.iter().sum())
        .collect();
    vec![Tensor {
        name: "sum".into(),
        shape: vec![batch.rows(), 1],
        data,
    }]
}

fn engine(backend: &FakeBackend, fixed_batch: Option<usize>) -> Engine {
    let session = backend.open("any".as_ref()).unwrap();
    Engine::start("test", session, fixed_batch, Arc::new(SystemClock::start())).unwrap()
}

fn batch(rows: usize) -> Batch {
    Batch {
        row_shape: vec![2],
        data: (0..rows * 2).map(|value| value as f32).collect(),
    }
}

#[tokio::test]
async fn a_fixed_batch_graph_sees_only_its_own_batch_size() {
    let backend = FakeBackend::new(signature(), |batch| {
        assert_eq!(batch.rows(), 2);
        Ok(sums(batch))
    });
    let outputs = engine(&backend, Some(2))
        .run(batch(5))
        .await
        .unwrap()
        .outputs;
    assert_eq!(outputs[0].shape, [5, 1]);
    assert_eq!(outputs[0].data, [1.0, 5.0, 9.0, 13.0, 17.0]);
}

#[tokio::test]
async fn outputs_that_fold_the_batch_of_one_away_get_it_back() {
    // As SCRFD does: `[cells, 1]` for a batch of one.
    let backend = FakeBackend::new(signature(), |batch| {
        Ok(vec![Tensor {
            name: "scores".into(),
            shape: vec![2, 1],
            data: batch.data.clone(),
        }])
    });
    let outputs = engine(&backend, Some(1))
        .run(batch(3))
        .await
        .unwrap()
        .outputs;
    assert_eq!(outputs[0].shape, [3, 2, 1]);
    assert_eq!(outputs[0].row(1), [2.0, 3.0]);
}

#[tokio::test]
async fn a_failed_run_is_an_error_and_the_engine_goes_on() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let backend = FakeBackend::new(signature(), move |batch| {
        if counted.fetch_add(1, Ordering::SeqCst) == 0 {
            return Err(BackendError::Run {
                detail: "first".into(),
            });
        }
        Ok(sums(batch))
    });
    let engine = engine(&backend, None);
    assert!(matches!(
        engine.run(batch(1)).await,
        Err(EngineError::Backend(_))
    ));
    assert_eq!(engine.run(batch(1)).await.unwrap().outputs[0].data, [1.0]);
}

#[tokio::test]
async fn a_batch_whose_caller_left_is_not_run() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let (entered_sender, entered) = flume::bounded(1);
    let (release, gate) = flume::bounded::<()>(1);
    let backend = FakeBackend::new(signature(), move |batch| {
        if counted.fetch_add(1, Ordering::SeqCst) == 0 {
            entered_sender.send(()).unwrap();
            gate.recv().unwrap();
        }
        Ok(sums(batch))
    });
    let engine = engine(&backend, None);
    let running = tokio::spawn({
        let engine = engine.clone();
        async move { engine.run(batch(1)).await }
    });
    entered.recv_async().await.unwrap();
    // The session is busy: this one is queued on its first poll, and then its caller leaves.
    {
        let mut left = Box::pin(engine.run(batch(1)));
        assert!(futures::poll!(left.as_mut()).is_pending());
    }
    release.send(()).unwrap();
    running.await.unwrap().unwrap();
    engine.run(batch(1)).await.unwrap();
    assert_eq!(
        calls.load(Ordering::SeqCst),
        2,
        "the abandoned batch must not run"
    );
}
