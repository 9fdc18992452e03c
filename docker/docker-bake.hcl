# All images, for `docker buildx bake`. Run it in the root of the repository, from which the paths start:
#
#     docker buildx bake -f docker/docker-bake.hcl --push                  # the image for the CPU, for both architectures
#     docker buildx bake -f docker/docker-bake.hcl all --push              # the images for NVIDIA and AMD, too
#
# docs/operations.md says what the builder needs.

variable "REPOSITORY" {
  # Where the images are pushed to, such as the address of a registry with a name.
  default = "facescan"
}

variable "VERSION" {
  # The version of the program.
  default = "0.1.0"
}

group "default" {
  targets = ["cpu"]
}

group "all" {
  targets = ["cpu", "cuda", "migraphx"]
}

target "_common" {
  context = "."
  labels = {
    "org.opencontainers.image.title"    = "facescan"
    "org.opencontainers.image.version"  = VERSION
    "org.opencontainers.image.licenses" = "MIT OR Apache-2.0"
  }
}

target "cpu" {
  inherits   = ["_common"]
  dockerfile = "docker/Dockerfile"
  tags       = ["${REPOSITORY}:${VERSION}", "${REPOSITORY}:cpu"]
  platforms  = ["linux/amd64", "linux/arm64"]
}

# ONNX Runtime with CUDA and with MIGraphX exists only for this architecture.
target "cuda" {
  inherits   = ["_common"]
  dockerfile = "docker/Dockerfile.cuda"
  tags       = ["${REPOSITORY}:${VERSION}-cuda", "${REPOSITORY}:cuda"]
  platforms  = ["linux/amd64"]
}

target "migraphx" {
  inherits   = ["_common"]
  dockerfile = "docker/Dockerfile.migraphx"
  tags       = ["${REPOSITORY}:${VERSION}-migraphx", "${REPOSITORY}:migraphx"]
  platforms  = ["linux/amd64"]
}
