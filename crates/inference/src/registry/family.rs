//! The roles and the families of models. Everything that the registry knows about a role or a family is here.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{ModelSpec, RegistryError, signature::Outputs};
use crate::{
    heads::{self, Head},
    placement::Precision,
};

/// The input of the models of a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoleInput {
    /// A letterboxed image. Its size is a multiple of 32, because a detector's grid has strides up to 32.
    Letterbox,
    /// An aligned 112×112 face crop.
    AlignedCrop,
    /// A whole image, resized as the entry says.
    Image,
}

/// Declares each role once. The enum, the list of all roles and their properties follow from it.
macro_rules! roles {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal {
        input: $input:ident, has_vector: $has_vector:literal, is_required: $is_required:literal,
        cpu_precisions: $precisions:expr $(,)?
    })+) => {
        /// What a model does.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum Role {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Role {
            /// Every role. The settings name the model of each.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Returns the name in the registry and in the settings.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Returns the input of the models.
            pub fn input(self) -> RoleInput {
                match self {
                    $(Self::$variant => RoleInput::$input,)+
                }
            }

            /// Returns whether the models compute vectors.
            pub fn has_vector(self) -> bool {
                match self {
                    $(Self::$variant => $has_vector,)+
                }
            }

            /// Returns whether the settings must name a model.
            pub fn is_required(self) -> bool {
                match self {
                    $(Self::$variant => $is_required,)+
                }
            }

            /// Returns the precisions that OpenVINO may use on the CPU, the fastest first.
            pub fn cpu_precisions(self) -> &'static [Precision] {
                match self {
                    $(Self::$variant => $precisions,)+
                }
            }
        }
    };
}

roles! {
    /// Finds faces and their five points.
    Detector = "detector" {
        input: Letterbox, has_vector: false, is_required: true,
        // bf16 moves the boxes of large faces by a few pixels. docs/benchmarks/accuracy.md has the effect on LFW.
        cpu_precisions: &[Precision::Reduced, Precision::Full],
    }
    /// Computes the embedding of an aligned 112×112 face crop.
    Embedder = "embedder" {
        input: AlignedCrop, has_vector: true, is_required: true,
        // bf16 hardly moves the embeddings of faces: over 807 images, the median cosine to f32 is 0.9999 and the lowest
        // is 0.9967.
        cpu_precisions: &[Precision::Reduced, Precision::Full],
    }
    /// Computes the embedding of a whole image.
    Encoder = "encoder" {
        input: Image, has_vector: true, is_required: false,
        // The effect of bf16 has not been measured.
        cpu_precisions: &[Precision::Full],
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Declares each family once: its name in the registry, its role, the check of a graph's outputs, and the head of a
/// detector.
macro_rules! families {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $role:ident, $check:ident, $head:expr;)+) => {
        /// How a model's inputs and outputs are laid out.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "lowercase")]
        pub enum Family {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Family {
            /// Returns the name in the registry.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// Returns the role of the models of this family.
            pub fn role(self) -> Role {
                match self {
                    $(Self::$variant => Role::$role,)+
                }
            }

            /// Returns the head. Returns `None` if the models do not detect faces.
            pub fn head(self) -> Option<Head> {
                match self {
                    $(Self::$variant => $head,)+
                }
            }

            /// Returns the check of the outputs of a model's graph.
            pub(super) fn check(self) -> fn(&ModelSpec, Outputs<'_>) -> Result<(), RegistryError> {
                match self {
                    $(Self::$variant => $check,)+
                }
            }
        }
    };
}

families! {
    /// YuNet: twelve outputs, class, objectness, box and points at strides 8, 16 and 32.
    Yunet = "yunet", Detector, yunet, Some(Head(heads::yunet::decode));
    /// SCRFD: scores, distances and, in nine-output files, points at strides 8, 16 and 32, two anchors per cell.
    Scrfd = "scrfd", Detector, scrfd, Some(Head(heads::scrfd::decode));
    /// CenterFace: heatmap, log-size, offset and points at stride 4.
    Centerface = "centerface", Detector, centerface, Some(Head(heads::centerface::decode));
    /// SFace: one vector.
    Sface = "sface", Embedder, one_vector, None;
    /// ArcFace and its relatives: one vector.
    Arcface = "arcface", Embedder, one_vector, None;
    /// Any encoder of whole images: one vector, or one for each token.
    Image = "image", Encoder, image_vector, None;
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn yunet(model: &ModelSpec, outputs: Outputs<'_>) -> Result<(), RegistryError> {
    for (kind, values) in [("cls", 1), ("obj", 1), ("bbox", 4), ("kps", 10)] {
        for stride in [8, 16, 32] {
            let name = format!("{kind}_{stride}");
            let expected = format!("an output `{name}` of shape [N, cells, {values}]");
            let Some(port) = outputs.named(&name) else {
                return model.disagree("family", expected, outputs);
            };
            let fits = |last: &Option<usize>| last.is_none_or(|last| last == values);
            if port.dims.len() != 3 || !port.dims.last().is_some_and(fits) {
                return model.disagree("family", expected, port);
            }
        }
    }
    Ok(())
}

fn scrfd(model: &ModelSpec, outputs: Outputs<'_>) -> Result<(), RegistryError> {
    let expected = "3 outputs each of last dimension 1, 4 and, with points, 10";
    let count = |values: usize| {
        let fits = |dims: &[Option<usize>]| {
            matches!(dims.len(), 2 | 3) && dims.last() == Some(&Some(values))
        };
        outputs.0.iter().filter(|port| fits(&port.dims)).count()
    };
    match (outputs.0.len(), count(1), count(4), count(10)) {
        (6, 3, 3, 0) | (9, 3, 3, 3) => Ok(()),
        _ => model.disagree("family", expected, outputs),
    }
}

fn centerface(model: &ModelSpec, outputs: Outputs<'_>) -> Result<(), RegistryError> {
    let fits = |dims: &[Option<usize>], channels| {
        dims.len() == 4 && dims[1].is_none_or(|found| found == channels)
    };
    let mut pairs = outputs.0.iter().zip([1, 2, 2, 10]);
    if outputs.0.len() == 4 && pairs.all(|(port, channels)| fits(&port.dims, channels)) {
        return Ok(());
    }
    let expected = "4 outputs with 1, 2, 2 and 10 channels";
    model.disagree("family", expected, outputs)
}

fn one_vector(model: &ModelSpec, outputs: Outputs<'_>) -> Result<(), RegistryError> {
    let [port] = outputs.0 else {
        return model.disagree("family", "one output", outputs);
    };
    // Stock ArcFace files declare one output row for any batch size, so the first dimension is not compared.
    let &[_, found] = port.dims.as_slice() else {
        return model.disagree("family", "an output of shape [N, dim]", port);
    };
    model.check_dim(found)
}

fn image_vector(model: &ModelSpec, outputs: Outputs<'_>) -> Result<(), RegistryError> {
    let port = match (&model.output, outputs.0) {
        (Some(name), _) => outputs.named(name),
        (None, [port]) => Some(port),
        (None, _) => None,
    };
    let Some(port) = port else {
        let expected = match &model.output {
            Some(name) => format!("an output `{name}`"),
            None => "one output, or the name of one of several".to_owned(),
        };
        return model.disagree("output", expected, outputs);
    };
    // Pooled features may have trailing dimensions of 1 after the vector.
    let of_one = |dims: &[Option<usize>]| dims.iter().all(|dim| dim.is_none_or(|dim| dim == 1));
    let vector = match (model.pooling, port.dims.as_slice()) {
        (Some(_), &[_, _, vector]) => vector,
        (Some(pooling), _) => {
            let expected = format!("{}, of an output [N, tokens, dim]", pooling.name());
            return model.disagree("pooling", expected, port);
        }
        (None, &[_, vector, ref rest @ ..]) if of_one(rest) => vector,
        (None, _) => {
            let expected = "an output [N, dim], or a pooling for one of [N, tokens, dim]";
            return model.disagree("output", expected, port);
        }
    };
    model.check_dim(vector)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exactly_the_detectors_have_a_head() {
        for model in crate::registry::Registry::embedded().unwrap().iter() {
            let is_detector = model.role == Role::Detector;
            assert_eq!(model.family.head().is_some(), is_detector, "{}", model.id);
        }
    }
}
