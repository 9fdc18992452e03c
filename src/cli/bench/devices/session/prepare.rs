//! Prepares the material with the application's own decoder and detector, before the measurement.

use anyhow::Context;
use facescan_pipeline::{
    core::options::StorageRequest, operation::ScanKind, operations::scan::request::ScanRequest,
};

use super::Session;
use crate::cli::bench::{
    devices::material::{Item, Material, Size},
    images::Image,
};
use facescan_imaging::{decode::decode, warp::align_face};

impl Session<'_> {
    /// Returns the images at each size, and the faces that the detector finds at that size.
    pub async fn materials(
        &self,
        images: &[Image],
        sizes: &[Size],
    ) -> anyhow::Result<Vec<Material>> {
        let empty = |&size| Material {
            size,
            images: Vec::new(),
            crops: Vec::new(),
        };
        let mut materials: Vec<Material> = sizes.iter().map(empty).collect();
        for image in images {
            let add = async {
                let decoded = decode(&image.bytes, &self.app.pipeline.decoding)?.pixels;
                for material in &mut materials {
                    let item = Item::new(material.size.fit(&decoded))?;
                    material.crops.extend(self.faces(&item).await?);
                    material.images.push(item);
                }
                anyhow::Ok(())
            };
            add.await
                .with_context(|| format!("preparing {}", image.path.display()))?;
        }
        for material in &materials {
            anyhow::ensure!(
                !material.crops.is_empty(),
                "no face was found in the images with a long side of {} pixels; name other images with --images",
                material.size.long_side()
            );
        }
        Ok(materials)
    }

    /// Returns the aligned crops of the faces in an image.
    async fn faces(&self, item: &Item) -> anyhow::Result<Vec<Item>> {
        let mut asked = ScanRequest {
            storage: StorageRequest::new(false),
            ..ScanRequest::default()
        };
        let pipeline = &self.app.pipeline;
        let thresholds = &pipeline.models.detector.spec.thresholds;
        let options = asked.resolve(ScanKind::Detect, &self.app.config, thresholds)?;
        let context = self.app.run_context();
        let scan = pipeline.drive(&context, item.loaded(), &options);
        let faces = scan.await?.result.faces;
        faces
            .iter()
            .filter_map(|face| align_face(&item.pixels, face.landmarks.as_ref()?))
            .map(Item::new)
            .collect()
    }
}
