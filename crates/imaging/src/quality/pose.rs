//! An estimate of the head pose from five landmarks. Its quality depends on the landmarks.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::geometry::Landmarks;

/// The distance of the nose tip from the plane of eyes and mouth, in eye distances.
///
/// With this value, the yaw from the nose agrees with the yaw from the shortened eye distance on turned faces.
const NOSE_DEPTH: f32 = 0.55;

/// The distance from eyes to mouth of a frontal face, in eye distances: the median of 200 faces of LFW.
const FACE_LENGTH: f32 = 1.05;

/// The position of the nose of a frontal face between the eyes (0) and the mouth (1): the median of 200 faces of LFW.
const NOSE_HEIGHT: f32 = 0.57;

/// Estimated angles in degrees.
///
/// The estimate was not compared with measured angles. Yaw is calibrated on two profile faces and separates them from
/// frontal faces. Pitch is weak, because five landmarks hardly change when a head nods: a raised face with an open
/// mouth measures 3°.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Pose {
    /// Positive: the face is turned to the image's right. −90..=90.
    pub yaw: f32,
    /// Positive: the face is raised. −90..=90.
    pub pitch: f32,
    /// Positive: the face is turned clockwise in the image, its right eye lower. −180..=180.
    pub roll: f32,
}

impl Pose {
    /// Returns the larger of |yaw| and |pitch|. Roll does not count, because crops are aligned.
    pub(crate) fn extreme(&self) -> f32 {
        self.yaw.abs().max(self.pitch.abs())
    }
}

/// Estimates the pose of a face.
///
/// The model is a plane through eyes and mouth with the nose in front of it, in orthographic projection. Yaw moves the
/// nose away from the center line by depth · sin(yaw) and shortens the eye distance by cos(yaw). Pitch moves the nose
/// along that line in the same way. If landmarks coincide, the angles are 0.
pub fn pose(points: &Landmarks) -> Pose {
    let [left_eye, right_eye, nose, left_mouth, right_mouth] = *points;
    let roll = (right_eye[1] - left_eye[1]).atan2(right_eye[0] - left_eye[0]);
    let (sin, cos) = roll.sin_cos();
    let eyes = middle(left_eye, right_eye);
    // Upright coordinates around the point between the eyes.
    let upright = |[x, y]: [f32; 2]| {
        let (x, y) = (x - eyes[0], y - eyes[1]);
        [cos * x + sin * y, cos * y - sin * x]
    };
    let mouth = upright(middle(left_mouth, right_mouth));
    let nose = upright(nose);
    let eye_distance = (right_eye[0] - left_eye[0]).hypot(right_eye[1] - left_eye[1]);
    if !(eye_distance > 0.0 && mouth[1].abs() > 0.0) {
        return Pose {
            yaw: 0.0,
            pitch: 0.0,
            roll: finite(roll.to_degrees()),
        };
    }
    let down = nose[1] / mouth[1];
    let aside = nose[0] - down * mouth[0];
    let yaw = (aside / eye_distance / NOSE_DEPTH).atan();
    let pitch = ((NOSE_HEIGHT - down) * FACE_LENGTH / NOSE_DEPTH / yaw.cos()).atan();
    Pose {
        yaw: finite(yaw.to_degrees()),
        pitch: finite(pitch.to_degrees()),
        roll: finite(roll.to_degrees()),
    }
}

fn middle(a: [f32; 2], b: [f32; 2]) -> [f32; 2] {
    [(a[0] + b[0]) / 2.0, (a[1] + b[1]) / 2.0]
}

fn finite(angle: f32) -> f32 {
    if angle.is_finite() { angle } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warp::Similarity;

    /// Returns the landmarks of a model face with the given angles, in pixels.
    fn face(yaw: f32, pitch: f32, roll: f32) -> Landmarks {
        let model = [
            [-0.5, 0.0, 0.0],
            [0.5, 0.0, 0.0],
            [0.0, NOSE_HEIGHT * FACE_LENGTH, NOSE_DEPTH],
            [-0.4, FACE_LENGTH, 0.0],
            [0.4, FACE_LENGTH, 0.0],
        ];
        let (ys, yc) = yaw.to_radians().sin_cos();
        let (ps, pc) = pitch.to_radians().sin_cos();
        let (rs, rc) = f64::from(roll).to_radians().sin_cos();
        let placed = Similarity {
            a: 60.0 * rc,
            b: 60.0 * rs,
            tx: 300.0,
            ty: 200.0,
        };
        model.map(|[x, y, z]| {
            let (x, z) = (x * yc + z * ys, z * yc - x * ys);
            let y = y * pc - z * ps;
            placed.apply([x.into(), y.into()]).map(|v| v as f32)
        })
    }

    #[test]
    fn the_angles_of_a_rotated_model_are_recovered() {
        for (yaw, pitch, roll) in [
            (0.0, 0.0, 0.0),
            (35.0, 0.0, 0.0),
            (-60.0, 0.0, 20.0),
            (0.0, 15.0, -90.0),
            (0.0, -15.0, 170.0),
        ] {
            let found = pose(&face(yaw, pitch, roll));
            assert!((found.yaw - yaw).abs() < 1.0, "{found:?} {yaw}");
            assert!((found.pitch - pitch).abs() < 1.0, "{found:?} {pitch}");
            assert!((found.roll - roll).abs() < 1.0, "{found:?} {roll}");
        }
    }

    // Landmarks from YuNet (OpenCV Zoo, 2023mar), named by the pose of the face.
    const LEFT: Landmarks = [
        [109.6, 326.6],
        [193.0, 330.1],
        [89.8, 409.6],
        [122.2, 478.3],
        [189.1, 478.3],
    ];
    const RIGHT: Landmarks = [
        [345.4, 116.9],
        [374.0, 105.8],
        [395.5, 143.1],
        [357.1, 188.8],
        [372.7, 181.1],
    ];
    const FRONTAL: Landmarks = [
        [160.0, 218.2],
        [294.8, 224.3],
        [225.5, 301.3],
        [158.5, 344.6],
        [283.3, 351.3],
    ];
    const LOWERED: Landmarks = [
        [278.6, 350.1],
        [336.1, 338.9],
        [305.3, 381.3],
        [297.3, 402.7],
        [346.7, 393.7],
    ];
    const RAISED: Landmarks = [
        [483.8, 236.4],
        [588.6, 252.9],
        [525.1, 301.9],
        [474.0, 344.2],
        [565.6, 357.7],
    ];

    #[test]
    fn profile_faces_are_separated_from_frontal_ones() {
        let left = pose(&LEFT);
        let right = pose(&RIGHT);
        let frontal = pose(&FRONTAL);
        assert!(left.yaw < -40.0, "{left:?}");
        assert!(right.yaw > 40.0, "{right:?}");
        assert!(frontal.extreme() < 10.0, "{frontal:?}");
        assert!(right.roll < -10.0 && left.roll.abs() < 10.0);
        // Only the signs of a lowered and a raised face are checked.
        assert!(pose(&LOWERED).pitch < -5.0 && pose(&RAISED).pitch > 1.0);
    }

    #[test]
    fn degenerate_points_give_finite_angles() {
        for points in [[[0.0; 2]; 5], [[f32::NAN; 2]; 5], [[f32::INFINITY; 2]; 5]] {
            let found = pose(&points);
            assert!(found.yaw.is_finite() && found.pitch.is_finite() && found.roll.is_finite());
        }
    }
}
