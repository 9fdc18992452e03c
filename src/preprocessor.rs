//! Pictures of any source into rows of a tensor: the library's way in, and that of `facescan preprocess`.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use tokio::io::AsyncReadExt;

use crate::{
    admission::Priority,
    app::App,
    context::RequestContext,
    ingest::{intake::Loaded, source::ImageInput},
    pipeline::error::PipelineError,
    pipeline::{
        answer::ErrorEntry,
        budget::Budget,
        preprocess::{PreprocessPlan, PreprocessRequest, Row},
    },
};
use facescan_inference::device::DeviceState;

/// Where a picture is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// A URL, where `urls.enabled` is set.
    Url(String),
    /// The encoded bytes.
    Bytes(Bytes),
}

impl Source {
    /// The bytes; to be held until they are worked on, as they bound how much is fetched meanwhile.
    ///
    /// # Errors
    /// Why they cannot be had, as an answer would tell it.
    pub async fn load(&self, app: &App) -> Result<Loaded, ErrorEntry> {
        let image = match self {
            Self::File(path) => ImageInput::from_bytes(read_file(app, path).await?),
            Self::Url(url) => ImageInput::from_url(url.clone()),
            Self::Bytes(bytes) => ImageInput::from_bytes(bytes.clone()),
        };
        // Whoever asks here waits for it, and shares the room with nobody else.
        let loaded = app.intake.load(image, Priority::Interactive).await;
        loaded.map_err(ErrorEntry::in_full)
    }
}

async fn read_file(app: &App, path: &Path) -> Result<Bytes, ErrorEntry> {
    // No more is read than may be: a huge file costs nothing, and a device has no end.
    let limits = app.pipeline.decoding.limits;
    let mut bytes = Vec::new();
    tokio::fs::File::open(path)
        .await
        .map_err(ErrorEntry::unreadable)?
        .take(limits.max_bytes + 1)
        .read_to_end(&mut bytes)
        .await
        .map_err(ErrorEntry::unreadable)?;
    Ok(bytes.into())
}

/// Makes rows of pictures as one plan says, several at a time and in order.
///
/// Loading, decoding and resizing of different pictures overlap; no more than `loaders` of them are in work at a time.
pub struct Preprocessor<'a> {
    app: &'a App,
    context: RequestContext,
    plan: PreprocessPlan,
    loaders: usize,
}

/// The rows of a batch, one after the other.
#[derive(Debug, Default)]
pub struct Batch {
    /// Values of all rows, little-endian, in the plan's type.
    pub values: Vec<u8>,
    /// The number of rows.
    pub rows: usize,
    /// A row's shape, `[3, h, w]` or `[h, w, 3]`; zeros where there is no row.
    pub row_shape: [usize; 3],
    /// Which source each row is of.
    pub index: Vec<usize>,
    /// Which sources have no row, and why.
    pub errors: Vec<(usize, ErrorEntry)>,
}

impl<'a> Preprocessor<'a> {
    /// One with the application's settings for what `request` leaves open.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] naming the option, and [`PipelineError::DeviceUnavailable`] where a strict request asks for a
    /// platform that is not there.
    pub fn new(app: &'a App, request: PreprocessRequest) -> Result<Self, PipelineError> {
        let plan = request.resolve(&app.config)?;
        app.pipeline.check_platform(plan.strict_device)?;
        Ok(Self {
            app,
            context: app.run_context(),
            plan,
            loaders: app.config.preprocess.num_workers,
        })
    }

    /// The same with another number of pictures in work at a time, at least 1.
    #[must_use]
    pub fn with_loaders(self, loaders: usize) -> Self {
        Self { loaders, ..self }
    }

    /// What is done with each picture.
    pub fn plan(&self) -> &PreprocessPlan {
        &self.plan
    }

    /// Where the pixels are worked on: what the settings ask for and what is in use.
    pub fn device(&self) -> DeviceState {
        self.app.pipeline.preprocessing.assignment.state()
    }

    /// Milliseconds that the device's graphs took to be built and run for the first time; `None` on the CPU.
    pub fn warm_up_ms(&self) -> Option<f64> {
        self.app.pipeline.preprocessing.warm_up_ms
    }

    /// The rows, or why there is none, in the order of the sources; each with what came beside its source. Sources are
    /// taken as rows are asked for, so that any number of them takes no memory.
    pub fn rows<T>(
        &self,
        sources: impl IntoIterator<Item = (T, Result<Source, ErrorEntry>)>,
    ) -> impl Stream<Item = (T, Result<Row, ErrorEntry>)> {
        stream::iter(sources)
            .map(async |(beside, source)| {
                let row = async { self.row(&source?).await };
                (beside, row.await)
            })
            .buffered(self.loaders.max(1))
    }

    async fn row(&self, source: &Source) -> Result<Row, ErrorEntry> {
        let Loaded {
            bytes,
            reservation: _reservation,
            ..
        } = source.load(self.app).await?;
        let plan = PreprocessPlan {
            // Whoever takes rows decides how many are kept: none has a share in the size of an answer.
            budget: Budget::default(),
            ..self.plan.clone()
        };
        let row = self
            .app
            .pipeline
            .preprocess(&self.context, bytes, &plan)
            .await;
        row.map_err(ErrorEntry::in_full)
    }

    /// All rows, in memory whatever their number; [`rows`](Self::rows) holds none. Sources may differ in size; those that
    /// fail are told apart.
    ///
    /// # Errors
    /// [`PipelineError::InvalidOption`] where the rows have several shapes, which `mode: short_side` gives pictures of several
    /// aspects.
    pub async fn batch(
        &self,
        sources: impl IntoIterator<Item = Source>,
    ) -> Result<Batch, PipelineError> {
        let sources = sources.into_iter().map(Ok).enumerate();
        let mut rows = std::pin::pin!(self.rows(sources));
        let mut batch = Batch::default();
        while let Some((index, row)) = rows.next().await {
            match row {
                Ok(row) if batch.rows > 0 && row.shape != batch.row_shape => {
                    return Err(PipelineError::invalid_option(
                        "mode",
                        "short_side gives pictures of other aspects other shapes, which are no tensor; use center_crop",
                    ));
                }
                Ok(row) => {
                    batch.row_shape = row.shape;
                    batch.rows += 1;
                    batch.values.extend_from_slice(&row.values);
                    batch.index.push(index);
                }
                Err(error) => batch.errors.push((index, error)),
            }
        }
        Ok(batch)
    }
}
