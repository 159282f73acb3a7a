"""Vectors of texts by the names of sentence-transformers."""
import numpy as np

from . import _lathe
from .kept_model import KeptModel
from .models import refuse_what_is_no_text


class SentenceTransformer(KeptModel):
    """A folder of sentence-transformers, or an encoder, whose tokens' mean is then the vector; or a name on the Hub.
    device: as --device of the program, None for the best that there is.  dtype: "float32" or "bfloat16" of the computation;
    vectors are always float32."""

    def __init__(self, model_name_or_path, *, device=None, truncate_dim=None, revision="main", cache_folder=None,
                 dtype="float32"):
        if dtype not in ("float32", "bfloat16"):
            raise ValueError(f'dtype: found {dtype!r}, expected "float32" or "bfloat16"')
        super().__init__(model_name_or_path)
        self._native = _lathe.SentenceEncoder(str(model_name_or_path), str(device or "auto"), dtype == "bfloat16", revision,
                                              str(cache_folder or ""))
        self.truncate_dim = truncate_dim
        self.max_seq_length = self._native.max_seq_length
        self.similarity_fn_name = self._native.similarity
        self.prompts = dict(self._native.prompts)

    def encode(self, inputs, prompt_name=None, prompt=None, batch_size=32, show_progress_bar=None,
               output_value="sentence_embedding", precision="float32", convert_to_numpy=True, convert_to_tensor=False,
               normalize_embeddings=False, truncate_dim=None):
        """One vector of one text, or a matrix of a list of them, as numpy arrays.  batch_size has no effect: batches are
        made by tokens."""
        for name, found, expected in [("output_value", output_value, "sentence_embedding"), ("precision", precision, "float32"),
                                      ("convert_to_numpy", convert_to_numpy, True), ("convert_to_tensor", convert_to_tensor, False)]:
            if found != expected:
                raise ValueError(f"{name}: found {found!r}, expected {expected!r}: encode gives float32 arrays of numpy")
        single = isinstance(inputs, str)
        texts = [inputs] if single else list(inputs)
        if not texts:
            return np.zeros(0, np.float32)  # as there
        dim = self.truncate_dim if truncate_dim is None else truncate_dim
        try:
            vectors = self._encoder.encode(texts, prompt, prompt_name, dim, normalize_embeddings)
        except TypeError:
            refuse_what_is_no_text("inputs", texts)
            raise
        return vectors[0] if single else vectors

    @property
    def _encoder(self):
        return self._native if self._trainer is None else self._trainer._run

    def _folder_of_weights(self):
        return self._native.folder if self._trainer is None else super()._folder_of_weights()

    def similarity(self, embeddings1, embeddings2):
        """[rows of 1, rows of 2], by similarity_fn_name."""
        first, second = (np.atleast_2d(np.ascontiguousarray(one, np.float32)) for one in (embeddings1, embeddings2))
        return _lathe.similarities(first, second, self.similarity_fn_name)

    def get_embedding_dimension(self):
        width = self._native.width
        return width if self.truncate_dim is None else min(width, self.truncate_dim)

    get_sentence_embedding_dimension = get_embedding_dimension
