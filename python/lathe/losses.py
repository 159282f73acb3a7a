"""The losses of sentence-transformers that `lathe embed` has, by their names; each is its flags."""


class SimilarityFunction:
    """Which similarity a distance or an evaluator takes."""
    COSINE, DOT_PRODUCT, EUCLIDEAN, MANHATTAN = "cosine", "dot", "euclidean", "manhattan"


class SiameseDistanceMetric:
    COSINE_DISTANCE, EUCLIDEAN, MANHATTAN = "cosine", "euclidean", "manhattan"


class TripletDistanceMetric:
    COSINE, EUCLIDEAN, MANHATTAN = "cosine", "euclidean", "manhattan"


class Loss:
    """words: flags of `lathe embed` or `lathe rerank`."""

    def __init__(self, model, **flags):
        self.model = model
        self.words = [f"--loss={type(self).__name__}"]
        self.words += [f"--{name}={value}" for name, value in flags.items() if value is not None]


def only_default(loss, name, found, expected, way):
    if found != expected:
        raise NotImplementedError(f"{loss}: {name}: found {found!r}, expected {expected!r}: {way}")


def symmetric_of(directions, partition_mode):
    """Of the two forms that there are."""
    wanted = {("query_to_doc",): False, ("doc_to_query", "query_to_doc"): True}.get(tuple(sorted(directions)))
    if wanted is None:
        raise NotImplementedError(f"directions: found {directions!r}, expected ('query_to_doc',), or 'doc_to_query', too")
    if wanted:
        only_default("MultipleNegativesRankingLoss", "partition_mode", partition_mode, "per_direction", "both directions are "
                     "apart here")
    return wanted


class MultipleNegativesRankingLoss(Loss):
    """Pairs, or anchors with a positive and negatives: of all texts of a batch the positive is the nearest."""

    def __init__(self, model, scale=20.0, similarity_fct=None, gather_across_devices=False, directions=("query_to_doc",),
                 partition_mode="joint", **more):
        if similarity_fct is not None and getattr(similarity_fct, "__name__", "") != "cos_sim":
            raise NotImplementedError(f"similarity_fct: found {similarity_fct!r}, expected None: it is the cosine")
        super().__init__(model, scale=scale, gather_across_devices=gather_across_devices,
                         symmetric=symmetric_of(directions, partition_mode), **more)


class CachedMultipleNegativesRankingLoss(MultipleNegativesRankingLoss):
    """The same for batches of any size: mini_batch_size samples are in memory at a time."""

    def __init__(self, model, scale=20.0, similarity_fct=None, mini_batch_size=32, gather_across_devices=False,
                 directions=("query_to_doc",), partition_mode="joint"):
        super().__init__(model, scale, similarity_fct, gather_across_devices, directions, partition_mode,
                         mini_batch_size=mini_batch_size)


class MultipleNegativesSymmetricRankingLoss(MultipleNegativesRankingLoss):
    """Positives look for their anchors, too."""

    def __init__(self, model, scale=20.0, similarity_fct=None, gather_across_devices=False):
        super().__init__(model, scale, similarity_fct, gather_across_devices, ("query_to_doc", "doc_to_query"), "per_direction")
        self.words[0] = "--loss=MultipleNegativesRankingLoss"


class CoSENTLoss(Loss):
    """Pairs with scores: cosines have the order of the scores."""

    def __init__(self, model, scale=20.0):
        super().__init__(model, scale=scale)


class CosineSimilarityLoss(Loss):
    """Pairs with scores from -1 to 1: cosines are the scores."""

    def __init__(self, model):
        super().__init__(model)


class TripletLoss(Loss):
    """Anchor, positive, negative: the positive is nearer, by the margin."""

    def __init__(self, model, distance_metric=TripletDistanceMetric.EUCLIDEAN, triplet_margin=5):
        super().__init__(model, distance_metric=distance_metric, triplet_margin=triplet_margin)


class ContrastiveLoss(Loss):
    """Pairs with labels: those with 1 are near, those with 0 farther apart than the margin."""

    def __init__(self, model, distance_metric=SiameseDistanceMetric.COSINE_DISTANCE, margin=0.5, size_average=True):
        super().__init__(model, distance_metric=distance_metric, margin=margin, size_average=size_average)


class MatryoshkaLoss(Loss):
    """A loss of whole vectors and of their first numbers."""

    def __init__(self, model, loss, matryoshka_dims, matryoshka_weights=None, n_dims_per_step=-1):
        only_default("MatryoshkaLoss", "n_dims_per_step", n_dims_per_step, -1, "every step trains all of them")
        self.model = model
        self.words = [*loss.words, "--matryoshka_dims=" + ",".join(map(str, matryoshka_dims))]
        if matryoshka_weights is not None:
            self.words.append("--matryoshka_weights=" + ",".join(map(str, matryoshka_weights)))
