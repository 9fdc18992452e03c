//! Turns images into rows of a tensor. The library and `facescan preprocess` use it.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use facescan_fields::groups::checked;
use facescan_pipeline::{
    admission::Priority,
    context::RequestContext,
    core::{error::PipelineError, memory::Budget},
    ingest::{
        intake::{LoadedImage, Requester},
        source::ImageInput,
    },
    operations::preprocess::{PreprocessPlan, PreprocessRequest, Row},
    results::ErrorEntry,
};
use futures::{Stream, StreamExt};
use tokio::io::AsyncReadExt;

use crate::{app::App, http::error::entry_in_full};

/// Where an image comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// A URL. It needs `urls.enabled`.
    Url(String),
    /// The encoded bytes.
    Bytes(Bytes),
}

impl Source {
    /// Loads the bytes. The result has the reservation of its bytes, and the run ends it.
    ///
    /// # Errors
    /// Returns the error entry that a response would contain.
    pub async fn load(&self, app: &App) -> Result<LoadedImage, ErrorEntry> {
        let image = match self {
            Self::File(path) => ImageInput::from_bytes(read_file(app, path).await?),
            Self::Url(url) => ImageInput::from_url(url.clone()),
            Self::Bytes(bytes) => ImageInput::from_bytes(bytes.clone()),
        };
        // A batch job may wait, and no other request shares its budget.
        let requester = Requester {
            tenant: &app.config.store.tenant.as_str().into(),
            priority: Priority::Interactive,
        };
        let loaded = app.runner.intake.load(image, requester).await;
        loaded.map_err(entry_in_full)
    }
}

async fn read_file(app: &App, path: &Path) -> Result<Bytes, ErrorEntry> {
    // At most the limit is read, so a huge file costs no memory and a device file without an end is not read forever.
    let limits = app.pipeline.decoding.limits;
    let file = tokio::fs::File::open(path)
        .await
        .map_err(ErrorEntry::unreadable)?;
    let stated = file.metadata().await.map_or(0, |metadata| metadata.len());
    // Without this, the buffer would grow in steps, which leaves holes in the memory of the process.
    let stated = usize::try_from(stated.min(limits.max_bytes)).unwrap_or(0);
    let mut bytes = Vec::with_capacity(stated + 1);
    file.take(limits.max_bytes + 1)
        .read_to_end(&mut bytes)
        .await
        .map_err(ErrorEntry::unreadable)?;
    Ok(bytes.into())
}

/// Turns images into rows by one plan, several images at a time. The rows keep the order of the sources.
///
/// Loading, decoding and resizing of different images overlap. At most `preprocess.num_workers` images are processed at a time.
pub struct Preprocessor<'a> {
    app: &'a App,
    context: RequestContext,
    plan: PreprocessPlan,
}

/// The rows of a batch, in order.
#[derive(Debug, Default)]
pub struct Batch {
    /// The values of all rows, little-endian, in the plan's type.
    pub values: Vec<u8>,
    /// The number of rows.
    pub rows: usize,
    /// The shape of a row: `[3, h, w]` or `[h, w, 3]`. It is all zeros if the batch has no row.
    pub row_shape: [usize; 3],
    /// The index of the source of each row.
    pub index: Vec<usize>,
    /// The index of each source without a row, and the error.
    pub errors: Vec<(usize, ErrorEntry)>,
}

impl<'a> Preprocessor<'a> {
    /// Creates a preprocessor. The application's settings fill the options that `request` leaves out.
    ///
    /// # Errors
    /// Returns [`PipelineError::InvalidOption`] with the name of the option if an option is not valid. Returns
    /// [`PipelineError::DeviceUnavailable`] if a strict request needs a platform that is missing.
    pub fn new(app: &'a App, request: PreprocessRequest) -> Result<Self, PipelineError> {
        let plan = checked(request)?.resolve(&app.config)?;
        app.pipeline.check_platform(plan.run.strict_device)?;
        Ok(Self {
            app,
            context: app.run_context(),
            plan,
        })
    }

    /// Returns the plan that every image goes through.
    pub fn plan(&self) -> &PreprocessPlan {
        &self.plan
    }

    /// Returns the rows in the order of the sources. Each item carries the value that came with its source, and a row
    /// or an error. Sources are read only when rows are polled, so any number of sources needs little memory.
    pub fn rows<'b, T: 'b>(
        &'b self,
        sources: impl IntoIterator<Item = (T, Result<Source, ErrorEntry>)> + 'b,
    ) -> impl Stream<Item = (T, Result<Row, ErrorEntry>)> + 'b {
        let runner = &self.app.runner;
        runner.admit_each(
            &self.context,
            sources,
            self.app.config.preprocess.num_workers,
            async |(beside, source)| {
                let row = async { self.row(&source?).await };
                (beside, row.await)
            },
        )
    }

    async fn row(&self, source: &Source) -> Result<Row, ErrorEntry> {
        let image = source.load(self.app).await?;
        let plan = PreprocessPlan {
            // The caller decides how many rows it keeps, so the response's size limit does not apply.
            budget: Budget::default(),
            ..self.plan.clone()
        };
        let row = self.app.runner.run(&self.context, image, &plan).await;
        row.map(|output| output.result).map_err(entry_in_full)
    }

    /// Collects all rows in memory. [`rows`](Self::rows) keeps none. Sources may differ in size. Failed sources are
    /// listed in [`Batch::errors`].
    ///
    /// # Errors
    /// Returns [`PipelineError::InvalidOption`] if the rows have several shapes. `mode: short_side` causes that for
    /// images of different aspect ratios.
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
                        "short_side gives images of different aspect ratios different shapes, which do not fit one tensor; use center_crop",
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
