"""Writes the seed state: the shop's content through Django's models, in one transaction, with the clock stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

from webarena.sites.shopping import app, shelves, words
from webarena.sites.shopping.content import CUSTOMER, NOW, SHIPPING, STAFF, STATUSES, Shop, content, slugify
from webarena.sites.shopping.pictures import picture_name

OPEN = datetime(2024, 1, 1, tzinfo=UTC), datetime(2099, 12, 31, tzinfo=UTC)
"""From when to when vouchers and offers hold."""


def build(site: str, state: Path, seed: int) -> None:
    """Fill the empty folder `state`. Needs a process of its own, as Django does."""
    from django.core.management import call_command
    from django.db import connection, transaction

    app.setup(site)
    app.bind(state)
    with _clock(NOW):
        call_command("migrate", run_syncdb=True, verbosity=0, interactive=False)
        with transaction.atomic():
            _write(content(seed))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
        cursor.execute("VACUUM")
        cursor.execute("PRAGMA journal_mode=DELETE")  # leaves no empty journal behind
    connection.close()


@contextmanager
def _clock(at: datetime) -> Iterator[None]:
    """Fields that take the current time take `at`."""
    with mock.patch("django.utils.timezone.now", return_value=at):
        yield


def _cents(amount: int) -> Decimal:
    return Decimal(amount) / 100


def _write(shop: Shop) -> None:
    _basics(shop)
    _catalogue(shop)
    _customers(shop)
    _reviews(shop)
    _orders(shop)
    _records(shop)
    _offers(shop)


def _basics(shop: Shop) -> None:
    from django.contrib.flatpages.models import FlatPage
    from django.contrib.sites.models import Site
    from oscar.core.loading import get_model

    Site.objects.update_or_create(pk=1, defaults={"domain": "127.0.0.1", "name": "Lanternhouse"})
    for page in shop.pages:
        flat = FlatPage.objects.create(url=page.path, title=page.title, content=page.body)
        flat.sites.add(1)
    country = get_model("address", "Country")
    country.objects.bulk_create(
        country(
            iso_3166_1_a2=two,
            iso_3166_1_a3=three,
            iso_3166_1_numeric=number,
            name=name,
            printable_name=name,
            display_order=len(words.COUNTRIES) - order,
            is_shipping_country=True,
        )
        for order, (two, three, number, name) in enumerate(words.COUNTRIES)
    )
    get_model("order", "PaymentEventType").objects.create(name="Paid", code="paid")
    get_model("payment", "SourceType").objects.create(name="On delivery", code="on-delivery")


def _catalogue(shop: Shop) -> None:
    from oscar.core.loading import get_model

    def model(name: str) -> Any:
        return get_model("catalogue", name)

    tops: dict[int, Any] = {}
    for category in shop.categories:
        row = {"name": category.name, "slug": slugify(category.name), "description": category.about}
        if category.parent:
            tops[category.parent].refresh_from_db()
            created = tops[category.parent].add_child(**row)
        else:
            created = tops[category.id] = model("Category").add_root(**row)
        if created.pk != category.id:
            raise RuntimeError(f"category {category.name} got id {created.pk}, not {category.id}")
    classes, attributes = {}, {}
    for department in shelves.DEPARTMENTS:
        kind = classes[department.kind] = model("ProductClass").objects.create(
            name=department.kind, slug=slugify(department.kind), requires_shipping=True, track_stock=True
        )
        for name in shop.products[0].attributes:
            attributes[department.kind, name] = model("ProductAttribute").objects.create(
                product_class=kind, name=name, code=slugify(name), type="text", required=False
            )
    products, records, values, places, images = [], [], [], [], []
    partner = get_model("partner", "Partner").objects.create(name="Lanternhouse warehouse", code="warehouse")
    for product in shop.products:
        products.append(
            model("Product")(
                pk=product.id,
                structure="standalone",
                is_public=True,
                upc=product.upc,
                title=product.title,
                slug=product.slug,
                description=f"<p>{product.description}</p>",
                product_class=classes[product.kind],
                rating=shop.rating(product),
                is_discountable=True,
                priority=0,
            )
        )
        records.append(
            get_model("partner", "StockRecord")(
                product_id=product.id,
                partner=partner,
                partner_sku=f"LH-{product.id:04d}",
                price_currency="USD",
                price=_cents(product.price),
                num_in_stock=product.stock,
                low_stock_threshold=5,
            )
        )
        for name, text in product.attributes.items():
            values.append(
                model("ProductAttributeValue")(
                    product_id=product.id, attribute=attributes[product.kind, name], value_text=text
                )
            )
        places.append(model("ProductCategory")(product_id=product.id, category_id=product.category))
        images.append(
            model("ProductImage")(product_id=product.id, original=picture_name(product.shape, product.colour))
        )
    model("Product").objects.bulk_create(products)
    for product in shop.products:
        age = timedelta(days=400 - product.id * 2, hours=product.id % 7)
        model("Product").objects.filter(pk=product.id).update(date_created=NOW - age, date_updated=NOW - age)
    get_model("partner", "StockRecord").objects.bulk_create(records)
    model("ProductAttributeValue").objects.bulk_create(values)
    model("ProductCategory").objects.bulk_create(places)
    model("ProductImage").objects.bulk_create(images)


def _customers(shop: Shop) -> None:
    from django.contrib.auth.hashers import make_password
    from django.contrib.auth.models import User
    from oscar.core.loading import get_model

    accounts = {shop.account.id: CUSTOMER, shop.staff.id: STAFF}
    users = []
    for customer in shop.customers:
        password = accounts[customer.id].password if customer.id in accounts else "not-for-login"
        users.append(
            User(
                pk=customer.id,
                username=customer.email,
                email=customer.email,
                first_name=customer.first,
                last_name=customer.last,
                # A shorter salt would be replaced at the first login, and that would end sessions when the state is restored.
                password=make_password(password, salt=f"{customer.id:022d}"),
                date_joined=customer.joined,
                last_login=NOW,
                is_staff=customer is shop.staff,
                is_superuser=customer is shop.staff,
            )
        )
    User.objects.bulk_create(users)
    address = get_model("address", "UserAddress")
    for customer in shop.customers:
        for number, place in enumerate(customer.addresses):
            address.objects.create(
                user_id=customer.id,
                first_name=customer.first,
                last_name=customer.last,
                **_place(place),
                is_default_for_shipping=number == 0,
                is_default_for_billing=number == 0,
            )
    # A basket each, or the first look at a page would make one.
    basket = get_model("basket", "Basket")
    basket.objects.bulk_create(basket(owner_id=customer.id) for customer in (shop.account, shop.staff))
    for wish_list in shop.wish_lists:
        model = get_model("wishlists", "WishList")
        created = model.objects.create(owner_id=shop.account.id, name=wish_list.name)
        model.objects.filter(pk=created.pk).update(key=wish_list.key)
        for product in wish_list.products:
            created.lines.create(product_id=product, title=shop.product(product).title)


def _place(place: Any) -> dict[str, Any]:
    return {
        "line1": place.line1,
        "line4": place.city,
        "state": place.state,
        "postcode": place.postcode,
        "country_id": "US",
    }


def _reviews(shop: Shop) -> None:
    from oscar.core.loading import get_model

    model = get_model("reviews", "ProductReview")
    model.objects.bulk_create(
        model(
            pk=review.id,
            product_id=review.product,
            user_id=review.customer,
            score=review.score,
            title=review.title,
            body=review.body,
            status=model.FOR_MODERATION if review.pending else model.APPROVED,
        )
        for review in shop.reviews
    )
    for review in shop.reviews:
        model.objects.filter(pk=review.id).update(date_created=review.date)


def _orders(shop: Shop) -> None:
    from oscar.core.loading import get_model

    def model(name: str) -> Any:
        return get_model("order", name)

    lines, prices, events = [], [], []
    for order in shop.orders:
        customer = shop.customer(order.customer)
        code, method, charge = SHIPPING[order.shipping]
        address = model("ShippingAddress").objects.create(
            first_name=customer.first, last_name=customer.last, **_place(order.address)
        )
        row = model("Order").objects.create(
            number=order.number,
            site_id=1,
            user_id=customer.id,
            currency="USD",
            total_incl_tax=_cents(order.total),
            total_excl_tax=_cents(order.total),
            shipping_incl_tax=_cents(charge),
            shipping_excl_tax=_cents(charge),
            shipping_address=address,
            shipping_method=method,
            shipping_code=code,
            status=order.status,
            date_placed=order.date,
        )
        for line in order.lines:
            product = shop.product(line.product)
            whole = _cents(line.unit_price * line.quantity)
            lines.append(
                model("Line")(
                    order=row,
                    partner_id=1,
                    partner_name="Lanternhouse warehouse",
                    partner_sku=f"LH-{product.id:04d}",
                    stockrecord_id=product.id,
                    product_id=product.id,
                    title=product.title,
                    upc=product.upc,
                    quantity=line.quantity,
                    line_price_incl_tax=whole,
                    line_price_excl_tax=whole,
                    line_price_before_discounts_incl_tax=whole,
                    line_price_before_discounts_excl_tax=whole,
                    unit_price_incl_tax=_cents(line.unit_price),
                    unit_price_excl_tax=_cents(line.unit_price),
                    status=order.status,
                    num_allocated=0,
                )
            )
        events.append((row, order))
    model("Line").objects.bulk_create(lines)
    for row, order in events:
        if order.status != STATUSES[0]:
            model("OrderStatusChange").objects.create(
                order=row,
                old_status=STATUSES[0],
                new_status=order.status,
                date_created=order.date + timedelta(hours=20),
            )
    prices = [
        model("LinePrice")(
            order_id=line.order_id,
            line=line,
            quantity=line.quantity,
            price_incl_tax=line.unit_price_incl_tax,
            price_excl_tax=line.unit_price_excl_tax,
        )
        for line in model("Line").objects.order_by("pk")
    ]
    model("LinePrice").objects.bulk_create(prices)


def _records(shop: Shop) -> None:
    """Oscar's own counts of who bought what, which its lists and reports show."""
    from oscar.core.loading import get_model

    user_record = get_model("analytics", "UserRecord")
    records = []
    for customer in shop.customers:
        orders = shop.orders_of(customer)
        if orders:
            records.append(
                user_record(
                    user_id=customer.id,
                    num_orders=len(orders),
                    num_order_lines=sum(len(order.lines) for order in orders),
                    num_order_items=sum(line.quantity for order in orders for line in order.lines),
                    total_spent=_cents(sum(order.total for order in orders)),
                    date_last_order=orders[-1].date,
                )
            )
    user_record.objects.bulk_create(records)
    bought: Counter[int] = Counter()
    for order in shop.orders:
        for line in order.lines:
            bought[line.product] += line.quantity
    product_record = get_model("analytics", "ProductRecord")
    product_record.objects.bulk_create(
        product_record(product_id=product, num_purchases=count) for product, count in sorted(bought.items())
    )


def _offers(shop: Shop) -> None:
    from oscar.core.loading import get_model

    def model(name: str) -> Any:
        return get_model("offer", name)

    everything = model("Range").objects.create(
        name="All products", slug="all-products", includes_all_products=True, is_public=False
    )
    condition = model("Condition").objects.create(range=everything, type="Count", value=1)
    for voucher in shop.vouchers:
        benefit = model("Benefit").objects.create(range=everything, type="Percentage", value=voucher.percent)
        offer = model("ConditionalOffer").objects.create(
            name=voucher.name, offer_type="Voucher", condition=condition, benefit=benefit, exclusive=False
        )
        row = get_model("voucher", "Voucher").objects.create(
            name=voucher.name,
            code=voucher.code,
            usage="Multi-use",
            start_datetime=OPEN[0],
            end_datetime=OPEN[1],
        )
        row.offers.add(offer)
    stationery = model("Range").objects.create(
        name="Stationery sale",
        slug="stationery-sale",
        is_public=True,
        description="Paper, ink and tidy desks.",
    )
    stationery.included_categories.add(
        next(category.id for category in shop.categories if category.name == "Stationery")
    )
    model("ConditionalOffer").objects.create(
        name="Three for two on stationery",
        description="Put three things from Stationery in your basket and pay for two.",
        offer_type="Site",
        condition=model("Condition").objects.create(range=stationery, type="Count", value=3),
        benefit=model("Benefit").objects.create(range=stationery, type="Multibuy"),
        exclusive=False,
    )
