"""What models that a trainer trains in place have in common."""
import shutil
import tempfile
import weakref


class KeptModel:
    """A folder or name, and once a trainer has it, that trainer's weights."""

    def __init__(self, name_or_path):
        self.name_or_path = str(name_or_path)
        self._trainer = None

    def _take(self, trainer):
        self._trainer = trainer

    def _folder_of_weights(self):
        """Where the weights are that a trainer or encoder begins with."""
        if self._trainer is None:
            return self.name_or_path
        folder = tempfile.mkdtemp(prefix="lathe-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self._trainer.save_model(folder)
        return folder

    def save_pretrained(self, path, **_):
        """The model as a folder of sentence-transformers, with the weights as they are now."""
        if self._trainer is None:
            raise ValueError(f"save_pretrained: nothing was trained, so {self.name_or_path} is the model; a trainer's "
                             "save_model writes one with new heads or modules")
        self._trainer.save_model(str(path))

    save = save_pretrained
