.PHONY: setup setup-tests models

setup: ## fetch what is missing: ONNX Runtime, the default models, a picture to try
	@scripts/setup

setup-tests: ## the same, and what the tests need: pictures, CenterFace, PostgreSQL
	@scripts/setup --tests

models: setup ## make the model files from the shipped ones
	@cargo run --quiet --release -- models prepare
