"""The bundled demo model: `model/` is an ordinary Hugging Face folder, made by tools/train_demo.py."""
