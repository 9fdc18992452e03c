//! ONNX Runtime, OpenVINO and libtorch as one backend. The provider of a placement decides which of them opens a model.

use super::{Backend, BackendError, Opening, Session};
use crate::{
    graphs::session::GraphSession,
    placement::{DevicePlacement, Runtime},
};

/// The backends of one machine as one.
pub struct CombinedBackend {
    onnx: Box<dyn Backend>,
    openvino: Box<dyn Backend>,
    /// `None` in a binary without libtorch.
    torch: Option<Box<dyn Backend>>,
}

impl CombinedBackend {
    /// Combines the two, and libtorch if the binary is built with it.
    pub fn new(onnx: Box<dyn Backend>, openvino: Box<dyn Backend>) -> Self {
        Self {
            onnx,
            openvino,
            #[cfg(feature = "torch")]
            torch: Some(Box::new(super::torch::TorchBackend)),
            #[cfg(not(feature = "torch"))]
            torch: None,
        }
    }

    fn backend_of(&self, placement: DevicePlacement) -> Result<&dyn Backend, BackendError> {
        match placement.provider.runtime() {
            Runtime::OnnxRuntime | Runtime::Remote => Ok(self.onnx.as_ref()),
            Runtime::Openvino => Ok(self.openvino.as_ref()),
            Runtime::Libtorch => self.torch.as_deref().ok_or_else(|| {
                BackendError::unavailable("this binary was built without the feature torch")
            }),
        }
    }
}

impl Backend for CombinedBackend {
    fn name(&self) -> &str {
        // The providers of the other runtimes have the names of their runtimes.
        self.onnx.name()
    }

    fn check_available(&self, placement: DevicePlacement) -> Result<(), BackendError> {
        self.backend_of(placement)?.check_available(placement)
    }

    fn open(&self, opening: &Opening<'_>) -> Result<Vec<Box<dyn Session>>, BackendError> {
        self.backend_of(opening.placement)?.open(opening)
    }

    fn open_graph(&self, opening: &Opening<'_>) -> Result<Box<dyn GraphSession>, BackendError> {
        self.backend_of(opening.placement)?.open_graph(opening)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        backend::fake::FakeBackend,
        placement::{Precision, Provider},
        tensor::Signature,
    };

    fn fake(says: &'static str) -> Box<dyn Backend> {
        let backend = FakeBackend::new(Signature::default(), |_| Ok(Vec::new()));
        Box::new(backend.with_availability(move |_| Err(BackendError::unavailable(says))))
    }

    fn refusal(backend: &CombinedBackend, provider: Provider) -> String {
        let placement = DevicePlacement::first(provider, Precision::Full);
        backend.check_available(placement).unwrap_err().to_string()
    }

    #[test]
    fn each_placement_goes_to_the_backend_of_its_provider() {
        let all = CombinedBackend {
            onnx: fake("onnx"),
            openvino: fake("openvino"),
            torch: Some(fake("torch")),
        };
        for provider in Provider::local() {
            let named = ["openvino", "torch"]
                .into_iter()
                .find(|name| provider.name().starts_with(name));
            assert_eq!(refusal(&all, provider), named.unwrap_or("onnx"));
        }
    }

    #[test]
    fn without_libtorch_its_placements_are_refused() {
        let two = CombinedBackend {
            onnx: fake("onnx"),
            openvino: fake("openvino"),
            torch: None,
        };
        assert_eq!(
            refusal(&two, Provider::TorchMps),
            "this binary was built without the feature torch"
        );
        assert_eq!(refusal(&two, Provider::Cuda), "onnx");
    }
}
