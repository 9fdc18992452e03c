//! ONNX Runtime and libtorch as one backend. The provider of a placement decides which of the two opens a model.

use super::{Backend, BackendError, Opening, Session};
use crate::{graphs::session::GraphSession, placement::DevicePlacement};

/// Two backends as one.
pub struct CombinedBackend {
    onnx: Box<dyn Backend>,
    /// `None` in a binary without libtorch.
    torch: Option<Box<dyn Backend>>,
}

impl CombinedBackend {
    /// Adds libtorch to `onnx`, if the binary is built with it.
    pub fn new(onnx: Box<dyn Backend>) -> Self {
        Self {
            onnx,
            #[cfg(feature = "torch")]
            torch: Some(Box::new(super::torch::TorchBackend)),
            #[cfg(not(feature = "torch"))]
            torch: None,
        }
    }

    fn backend_of(&self, placement: DevicePlacement) -> Result<&dyn Backend, BackendError> {
        if !placement.provider.is_torch() {
            return Ok(self.onnx.as_ref());
        }
        self.torch
            .as_deref()
            .ok_or_else(|| BackendError::Unavailable {
                detail: "this binary was built without the feature torch".to_owned(),
            })
    }
}

impl Backend for CombinedBackend {
    fn name(&self) -> &str {
        // The names of libtorch's providers start with `torch-`.
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
        let nothing = Signature {
            inputs: Vec::new(),
            outputs: Vec::new(),
        };
        let backend = FakeBackend::new(nothing, |_| Ok(Vec::new()));
        Box::new(backend.with_availability(move |_| {
            Err(BackendError::Unavailable {
                detail: says.to_owned(),
            })
        }))
    }

    fn refusal(backend: &CombinedBackend, provider: Provider) -> String {
        let placement = DevicePlacement {
            provider,
            index: 0,
            precision: Precision::Full,
        };
        backend.check_available(placement).unwrap_err().to_string()
    }

    #[test]
    fn each_placement_goes_to_the_backend_of_its_provider() {
        let both = CombinedBackend {
            onnx: fake("onnx"),
            torch: Some(fake("torch")),
        };
        for provider in Provider::local() {
            let expected = if provider.name().starts_with("torch-") {
                "torch"
            } else {
                "onnx"
            };
            assert_eq!(refusal(&both, provider), expected);
        }
    }

    #[test]
    fn without_libtorch_its_placements_are_refused() {
        let one = CombinedBackend {
            onnx: fake("onnx"),
            torch: None,
        };
        assert_eq!(
            refusal(&one, Provider::TorchMps),
            "this binary was built without the feature torch"
        );
        assert_eq!(refusal(&one, Provider::Cuda), "onnx");
    }
}
