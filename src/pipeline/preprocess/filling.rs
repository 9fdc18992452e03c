//! A row of a tensor from a picture, which a device may make.

use std::sync::Arc;

use image::RgbImage;

use crate::pipeline::detect::Pixels;
use facescan_imaging::preprocess::{Layout, Mode, Placement, Preprocess, Profile};
use facescan_inference::{
    backend::BackendError,
    graphs::{
        ImageGraph,
        process::{BilinearPlan, Rounding, TwoTapPlan},
        session::Samples,
    },
    image_executor::{GraphSessions, ImageJob, ShapeKey, only_output},
    proof,
};

/// Longest side of a scaled picture that a device cuts its part from.
const LONGEST_SCALED: u32 = 1 << 16;

/// Pixels of the largest row that is asked of a device. The graph without antialiasing has most at a time: four samples a
/// channel as floats, before and after they are weighed, and as bytes still, which is 120 bytes a pixel and 500 MB. It
/// answers in floats, 50 MB.
const MOST_PIXELS: u64 = 1 << 22;

/// Pixels of the lines that the graph without antialiasing takes its columns from: a picture's width by a row's height, two
/// lines for each, in bytes. They take 400 MB.
const MOST_IN_LINES: u64 = 1 << 26;

/// Weights of both axes that are sent to a device for one picture, 128 MB of them.
const MOST_WEIGHTS: u64 = 32 << 20;

/// A picture on its way to being a row.
pub(crate) struct Filling<P> {
    picture: Arc<P>,
    preprocess: Preprocess,
}

impl Filling<RgbImage> {
    /// A small picture that is shrunk and put in the middle, through each graph that there is: what a device is proved
    /// with.
    pub fn of_every_graph() -> impl Iterator<Item = Self> {
        Profile::ALL.into_iter().map(Self::known)
    }

    /// The same by one profile.
    pub fn known(profile: Profile) -> Self {
        let preprocess = Preprocess {
            height: 48,
            width: 64,
            profile,
            mode: Mode::Letterbox,
            // A proof of padding has to tell the channels apart.
            pad: [7, 114, 255],
            ..Preprocess::default()
        };
        Self::new(&Arc::new(proof::picture(150, 110)), &preprocess)
    }
}

impl<P: Pixels> Filling<P> {
    pub fn new(picture: &Arc<P>, preprocess: &Preprocess) -> Self {
        Self {
            picture: Arc::clone(picture),
            preprocess: preprocess.clone(),
        }
    }

    fn pixels(&self) -> &RgbImage {
        self.picture.as_ref().borrow()
    }

    /// The row's shape: `[3, h, w]` or `[h, w, 3]`.
    pub fn shape(&self) -> [usize; 3] {
        let (width, height) = self.preprocess.output_size(self.pixels().dimensions());
        let (w, h) = (width as usize, height as usize);
        match self.preprocess.layout {
            Layout::Nchw => [3, h, w],
            Layout::Nhwc => [h, w, 3],
        }
    }

    /// Whether a device should be asked: not for a row whose graph would take too much memory, be it that the row itself is
    /// large, or that far more is scaled, read or weighed than is kept.
    pub fn has_graph(&self) -> bool {
        let picture = self.pixels();
        if picture.is_empty() {
            return false;
        }
        let (width, height) = picture.dimensions();
        let Placement { scaled, output, .. } = self.preprocess.placement((width, height));
        let area = |width: u32, height: u32| u64::from(width) * u64::from(height);
        let is_light = match self.preprocess.profile {
            Profile::Torchvision | Profile::Jax | Profile::Pil => {
                area(width, output.0) + area(height, output.1) <= MOST_WEIGHTS
            }
            Profile::Opencv => area(width, output.1) <= MOST_IN_LINES,
        };
        scaled.0.max(scaled.1) <= LONGEST_SCALED
            && area(output.0, output.1) <= MOST_PIXELS
            && is_light
    }

    /// Fills the row here. CPU work.
    pub fn fill(&self) -> Vec<f32> {
        let mut row = vec![0.0; self.shape().iter().product()];
        self.preprocess.write(self.pixels(), &mut row);
        row
    }

    /// How many levels an answer may be off: a device rounds halves its own way.
    fn levels(&self) -> f32 {
        match self.preprocess.profile {
            Profile::Jax | Profile::Opencv => 0.01,
            _ => 1.0,
        }
    }
}

/// The graph of a profile.
fn graph(profile: Profile) -> ImageGraph {
    match profile {
        Profile::Torchvision => ImageGraph::Bilinear(Rounding::Once),
        Profile::Jax => ImageGraph::Bilinear(Rounding::None),
        Profile::Pil => ImageGraph::Bilinear(Rounding::EachPass),
        Profile::Opencv => ImageGraph::BilinearTwoTap,
    }
}

impl<P: Pixels> ImageJob for Filling<P> {
    type Output = Vec<f32>;

    fn shape_key(&self) -> ShapeKey {
        let (width, height) = self.pixels().dimensions();
        let (w, h) = self.preprocess.output_size((width, height));
        ShapeKey {
            graph: graph(self.preprocess.profile).name(),
            lengths: vec![width, height, w, h],
        }
    }

    fn run_on_device(&self, graphs: &mut GraphSessions) -> Result<Vec<f32>, BackendError> {
        let picture = self.pixels();
        let size = picture.dimensions();
        let placed = self.preprocess.placement(size);
        let normalisation = self.preprocess.normalisation();
        let pad = self.preprocess.pad;
        let graph = graph(self.preprocess.profile);
        let session = graphs.session(graph.name(), || graph.model())?;
        let outputs = match self.preprocess.profile {
            Profile::Torchvision | Profile::Jax | Profile::Pil => {
                let plan = BilinearPlan::new(size, &placed);
                session.run(&plan.inputs(picture, pad, &normalisation))
            }
            Profile::Opencv => {
                let plan = TwoTapPlan::new(size, &placed);
                session.run(&plan.inputs(picture, pad, &normalisation))
            }
        }?;
        let len: usize = self.shape().iter().product();
        match only_output(outputs)? {
            (_, Samples::F32(row)) if row.len() == len => Ok(match self.preprocess.layout {
                Layout::Nchw => row,
                Layout::Nhwc => interleaved(&row),
            }),
            (shape, _) => Err(BackendError::Run {
                detail: format!("the graph gave {shape:?} and not {:?}", self.shape()),
            }),
        }
    }

    fn run_on_cpu(&self) -> Vec<f32> {
        self.fill()
    }

    fn compare(&self, given: &Vec<f32>, right: &Vec<f32>) -> Result<f64, String> {
        let scale = self.preprocess.normalisation().scale;
        let scale = scale.into_iter().fold(0.0, f32::max);
        // A hair more than a level, which is not a whole number after normalisation.
        let limit = self.levels() * 1.001 * scale;
        if given.len() != right.len() || !proof::are_near(given, right, limit) {
            return Err(format!(
                "its values are more than {} of a level from the cpu's",
                self.levels()
            ));
        }
        Ok(proof::cosine(given, right))
    }
}

/// Planes as pixels.
fn interleaved(planes: &[f32]) -> Vec<f32> {
    let len = planes.len() / 3;
    (0..len)
        .flat_map(|at| [planes[at], planes[len + at], planes[2 * len + at]])
        .collect()
}

#[cfg(test)]
mod tests;
